"""Where references stand in the splits: groups of what belongs together, and the check that nothing of a group crosses."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from agents.likeness import Link, components, near_pairs, shingles
from stitchweb.datasets.models import SPLITS, Record, Reference
from stitchweb.datasets.progress import Refused, Tell, silent
from stitchweb.review.export import gold_groups
from stitchweb.sharing.models import Origin
from stitchweb.teams.access import require
from stitchweb.teams.models import Team, User

LIKE = 0.8  # Jaccard index of token 5-grams from which two references are near duplicates
SALT = "stitchweb.split/1"
SHARES = (("train", 0.8), ("validation", 0.1), ("test", 0.1))


@dataclass(frozen=True)
class Placed:
    """A reference as the check sees it. `key`: its digest; `candidates`: normalised digests of its candidates with their
    names."""

    key: str
    name: str
    split: str
    group: str
    ast_sha256: str
    text: str
    families: tuple[str, ...]  # of revisions and forks of one program
    candidates: Mapping[str, str]
    gold: bool = False


@dataclass(frozen=True)
class Leak:
    """Two references of one family in two splits."""

    kind: str
    a: Placed
    b: Placed
    because: str

    def __str__(self) -> str:
        if self.a is self.b:
            return f"{_said(self.a)} is in {self.a.split}, and {self.because}."
        return f"{_said(self.a)} is in {self.a.split} and {_said(self.b)} in {self.b.split}, and {self.because}."


def _said(row: Placed) -> str:
    return f"“{row.name}” ({row.key[:12]})"


class Leaking(Refused):
    """Something stands in two splits. `leaks`: every pair."""

    def __init__(self, leaks: Sequence[Leak]) -> None:
        self.leaks = list(leaks)
        more = f" And {len(leaks) - 1} more." if len(leaks) > 1 else ""
        super().__init__(
            f"The splits leak: {leaks[0]}{more} Give both the same split, or take the pin off one, on the page of references."
        )


_WHY = {
    "same program": "their syntax trees are the same but for names and constants",
    "fork": "they are revisions or forks of one program",
    "candidate": "they share a candidate: {} is {}, but for names and comments",
}


def links(rows: Sequence[Placed]) -> Iterator[Link]:
    """What belongs together, whatever split it is in. The kind stands before the reason, parted by a bar."""
    by: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        by["same program", row.ast_sha256].append((row.key, ""))
        for family in row.families:
            by["fork", family].append((row.key, ""))
        for digest, name in row.candidates.items():
            by["candidate", digest].append((row.key, name))
    for (kind, _), some in by.items():
        (first, name), *others = some
        for other, its_name in others:
            yield Link(first, other, f"{kind}|{_WHY[kind].format(name, its_name)}")
    grams = {row.key: shingles(row.text) for row in rows}
    for a, b, like in near_pairs(grams, LIKE):
        yield Link(a, b, f"near duplicate|they are near duplicates (Jaccard index {like:.2f} of token 5-grams)")


def leaks(rows: Sequence[Placed]) -> list[Leak]:
    """Every pair that belongs together and stands apart, and gold that stands anywhere but in gold. Empty when nothing
    leaks."""
    by_key = {row.key: row for row in rows}
    found = []
    for link in links(rows):
        a, b = by_key[link.a], by_key[link.b]
        if a.split != b.split:
            kind, _, because = link.why.partition("|")
            found.append(Leak(kind, a, b, because))
    groups: dict[str, Placed] = {}
    for row in rows:
        first = groups.setdefault(row.group, row)
        if first.split != row.split:
            found.append(Leak("group", first, row, f"both belong to the group {row.group}"))
        if row.gold and row.split != "gold":
            found.append(Leak("gold", row, row, "a gold item uses it, so nothing of it may train or test anything"))
    return found


def placed(team: Team) -> list[Placed]:
    """The team's references as they stand now, in the order of their digests. Four queries."""
    held_out = gold_groups()
    candidates: dict[int, dict[str, str]] = defaultdict(dict)
    records = Record.objects.filter(team=team).order_by("pk").values_list("reference", "norm_sha256", "run", "candidate")
    for reference, digest, run, name in records.iterator(chunk_size=5000):
        candidates[reference].setdefault(digest, f"{name} of run {run}")
    forks: dict[str, set[str]] = defaultdict(set)
    origins = Origin.objects.filter(run__team=team).values_list("run__revision__sha256", "publication__reference")
    for text, forked in origins:
        forks[text].add(f"f{forked}")
        forks[forked].add(f"f{forked}")
    rows = Reference.objects.filter(team=team).select_related("revision__program").order_by("sha256")
    return [
        Placed(
            row.sha256, row.revision.program.name, row.pinned or row.split, row.group, row.ast_sha256, row.revision.text,
            (f"p{row.revision.program_id}", *sorted(forks[row.sha256])), candidates.get(row.pk, {}),
            row.ast_sha256 in held_out,
        )
        for row in rows
    ]  # fmt: skip


@transaction.atomic
def place(team: Team, tell: Tell = silent) -> list[Placed]:
    """Give every reference its group and split. A group keeps its split; where new data joins two, the more held-out one stays.

    Pins are not touched. Returns the references as they stand then.
    """
    tell("Comparing references")
    before = placed(team)
    of = components((row.key for row in before), links(before))
    members: dict[str, list[Placed]] = defaultdict(list)
    for row in before:
        members[of[row.key]].append(row)
    changed = []
    stored = {row.sha256: row for row in Reference.objects.select_for_update().filter(team=team)}
    for some in members.values():
        group, split = _group(some, stored)
        for row in some:
            reference = stored[row.key]
            if (reference.group, reference.split) != (group, split):
                reference.group, reference.split = group, split
                changed.append(reference)
    Reference.objects.bulk_update(changed, ["group", "split"], batch_size=500)
    return placed(team) if changed else before


def _group(some: Sequence[Placed], stored: Mapping[str, Reference]) -> tuple[str, str]:
    """Name and split of the group of these references."""
    old = {row.group: stored[row.key].split for row in some if row.group}
    if old:
        group = max(sorted(old), key=lambda name: SPLITS.index(old[name]))
    else:
        group = "g" + min(row.ast_sha256 for row in some)[:16]
    split = old.get(group) or drawn(group)
    return group, "gold" if any(row.gold for row in some) else split


def drawn(group: str) -> str:
    """The split of a group by its name alone, 80 to 10 to 10."""
    at = int.from_bytes(hashlib.sha256(f"{SALT} {group}".encode()).digest()[:8], "big") / 2**64
    for split, share in SHARES:
        if at < share:
            return split
        at -= share
    return SHARES[-1][0]


@transaction.atomic
def pin(user: User, team: Team, key: int, *, split: str | None = None, license: str | None = None) -> Reference:
    """Put a reference into a split whatever its group's is (empty: as its group), or say its licence. Refused with a
    sentence."""
    from stitchweb.datasets.permissions import MAKE

    require(user, team.pk, MAKE)
    row = Reference.objects.select_for_update().filter(team=team, pk=key).first()
    if row is None:
        raise Refused("This team has no such reference.")
    if split is not None:
        if split not in ("", *SPLITS):
            raise Refused(f"There is no split {split!r}. Choose one of {', '.join(SPLITS)}, or none.")
        row.pinned = split
    if license is not None:
        row.license = _licence(license)
    row.save(update_fields=["pinned", "license"])
    return row


def _licence(word: str) -> str:
    if not word or len(word) > 60 or not all(c.isalnum() or c in ".-+" for c in word):
        raise Refused("A licence is an SPDX name, such as Apache-2.0, or LicenseRef- and a name.")
    return word


def in_training(rows: Iterable[Placed]) -> frozenset[str]:
    """The digests of references whose labels may train something."""
    return frozenset(row.key for row in rows if row.split == "train")
