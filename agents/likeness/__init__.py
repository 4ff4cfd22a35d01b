"""Which texts are the same but for names, and which nearly so: what splits and duplicates of a release are decided by.

`normal` gives digests that names and comments do not change; `near` finds near duplicates by MinHash; `groups`
joins what belongs together. Pure functions over texts; nothing but the standard library comes in.
"""

from agents.likeness.groups import Link, components
from agents.likeness.near import jaccard, near_pairs, shingles
from agents.likeness.normal import candidate_norm_sha256, without_comments

__all__ = [
    "Link",
    "candidate_norm_sha256",
    "components",
    "jaccard",
    "near_pairs",
    "shingles",
    "without_comments",
]
