"""What people are told of, and on which ways unless they choose otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """`name` as rows and web hooks have it; `page` and `mail`: whether somebody who chose nothing is told that way."""

    name: str
    title: str
    says: str
    page: bool = True
    mail: bool = True


RUN_FINISHED = Kind("run.finished", "A run has ended", "One of your runs finished, failed or was cancelled", mail=False)
REVIEW_REQUESTED = Kind("review.requested", "A review is asked of you", "You were added to those who score in a project")
ADJUDICATION = Kind(
    "review.adjudication", "A dispute", "You may settle disputes, some wait for you, or one about your label was settled"
)
SHARE = Kind(
    "library.shared", "Something was shared", "Somebody published a program in your team, or shared one of yours", mail=False
)
MENTION = Kind("library.mention", "You were mentioned", "A comment names you, or is about a program that you published")

KINDS: dict[str, Kind] = {k.name: k for k in (RUN_FINISHED, REVIEW_REQUESTED, ADJUDICATION, SHARE, MENTION)}
WAYS = (("page", "on the site"), ("mail", "by mail"))
