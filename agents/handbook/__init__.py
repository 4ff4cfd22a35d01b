"""The handbook: short notes of our own on how fast programs are written for a GPU or a CPU, and how the right ones are found.

`pages/*.md` are the notes, each with one kernel that is compiled in the tests; `page` reads them, `ranking` is BM25 over them,
`retrieval` says which of them fit a situation. Nothing of the loop or of an engineer may come in here.
"""

from agents.handbook.page import ARCHITECTURES, BOTTLENECKS, FAMILIES, Page, pages
from agents.handbook.retrieval import Situation, family_of, fitting

__all__ = ["ARCHITECTURES", "BOTTLENECKS", "FAMILIES", "Page", "Situation", "family_of", "fitting", "pages"]
