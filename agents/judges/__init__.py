"""Judges: models that rate a candidate like the experts. One interface, versions that never change once made.

`case` is what a judge sees and `Judgement` what it says; `prompt` writes both as text, for the model judge and for training
data; `features` and `local` are the judge that learns from a team's labels on a CPU (scikit-learn, imported when it trains or
scores); `model` asks a model through `agents.llm`; `figures`, `gate` and `probes` say how far one can be trusted.
No Django, no torch.
"""

from agents.judges.case import Case, Judgement, Line

__all__ = ["Case", "Judgement", "Line"]
