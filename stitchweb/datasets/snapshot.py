"""A team's labels at one moment, as plain data: what a release freezes, and all that its configs are made of.

The content is JSON in a fixed order and says nothing of when or under which name it was frozen, so that the same labels have
the same digest. People are pseudonyms; free text is searched for their names.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agents.likeness import near_pairs, shingles
from stitchweb.datasets.models import Keyring, Record, Reference
from stitchweb.datasets.progress import Tell, silent
from stitchweb.datasets.services.collect import records_of, texts_of
from stitchweb.datasets.services.placing import Placed
from stitchweb.review.mask import Mask
from stitchweb.review.models import Adjudication, Assignment, Gold, Held, Item, Review, Rubric
from stitchweb.teams.models import Membership, Team

SCHEMA = "stitchweb.release/1"
SAME = 0.9  # Jaccard index from which two candidates of one reference are duplicates
Snapshot = dict[str, Any]


def freeze(team: Team, rows: list[Placed], tell: Tell = silent) -> Snapshot:
    """The team's references, candidates, ratings and final labels. Reads the database; writes a rater key where there is
    none."""
    split_of = {row.key: row for row in rows}
    references = _references(team, split_of)
    candidates = _candidates(team, tell)
    tell("Reading labels")
    told = {c["sha256"] for c in candidates}
    key = Keyring.objects.get_or_create(team=team)[0].secret
    veil = _veil(team)
    ratings = [row for row in _ratings(team, key, veil, tell) if row["sha256"] in told]
    finals = [row for row in _finals(team, key, veil) if row["sha256"] in told]
    gold = [row for row in _gold(team) if row["sha256"] in told]
    used = {c["reference"] for c in candidates}
    return {
        "schema": SCHEMA,
        "rubrics": _rubrics(row["rubric"] for row in [*ratings, *finals]),
        "references": [r for r in references if r["sha256"] in used],
        "candidates": candidates,
        "ratings": ratings,
        "finals": finals,
        "gold": gold,
    }


def content(snapshot: Snapshot) -> bytes:
    """The snapshot in the one way that is hashed."""
    return json.dumps(snapshot, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def pseudonym(key: str, person: str) -> str:
    """A rater's name in the team's releases: a keyed digest, the same in all of them while the key stays."""
    return "r" + hmac.new(bytes.fromhex(key), person.encode(), hashlib.sha256).hexdigest()[:12]


def _veil(team: Team) -> Mask:
    """Hides the names and addresses of the team's people in free text."""
    people = Membership.objects.filter(team=team).values_list("user__name", "user__email")
    names = [part for name, email in people for part in (name, email, email.partition("@")[0]) if part]
    single = [part for name, _ in people for part in name.split()]
    return Mask(names, as_written=single)


def _references(team: Team, rows: Mapping[str, Placed]) -> list[dict[str, Any]]:
    found = Reference.objects.filter(team=team).select_related("revision__program").order_by("sha256")
    return [
        {
            "sha256": row.sha256, "ref_id": f"ref-{row.sha256[:12]}", "text": row.revision.text, "ast": row.ast_sha256,
            "group": rows[row.sha256].group, "split": rows[row.sha256].split, "license": row.license,
            "eager_ms": (row.revision.analysis or {}).get("eager_ms"), "synthetic": row.revision.program.synthetic,
        }
        for row in found
    ]  # fmt: skip


def _candidates(team: Team, tell: Tell) -> list[dict[str, Any]]:
    """One per content: of several runs that made the same, the one that stands in a review, else the first."""
    reviewed = set(Item.objects.filter(project__team=team).values_list("run", "candidate"))
    chosen: dict[str, Record] = {}
    counts: dict[str, int] = defaultdict(int)
    for record in records_of(team):
        counts[record.sha256] += 1
        held = chosen.get(record.sha256)
        here, there = (record.run_id, record.candidate) in reviewed, held and (held.run_id, held.candidate) in reviewed
        if held is None or (here and not there):
            chosen[record.sha256] = record
    digests = {sha for r in chosen.values() for sha in (*r.files.values(), *r.parent_files.values())}
    tell("Reading candidates", 0, len(chosen))
    texts = texts_of(digests)
    parents = _parents(chosen.values())
    rows = [
        {
            "sha256": r.sha256, "reference": r.reference.sha256, "run": r.run_id, "candidate": r.candidate, "number": r.number,
            "norm": r.norm_sha256, "parent": parents.get((r.run_id, r.parent), ""), "skill": r.skill, "coder": r.engineer,
            "target": r.target, "origin": r.origin, "verdict": r.verdict, "asked": r.asked, "measured": r.measured,
            "facts": r.facts, "inputs": r.inputs, "reward": r.reward, "count": counts[r.sha256],
            "files": {path: texts[sha] for path, sha in r.files.items() if sha in texts},
            "parent_files": {path: texts[sha] for path, sha in r.parent_files.items() if sha in texts},
        }
        for r in sorted(chosen.values(), key=lambda r: r.sha256)
    ]  # fmt: skip
    return _clustered([row for row in rows if row["files"]], tell)


def _parents(records: Iterable[Record]) -> dict[tuple[int, str], str]:
    """Contents by run and candidate, of the runs in which some of these have a parent."""
    runs = sorted({r.run_id for r in records if r.parent})
    found = {}
    for start in range(0, len(runs), 900):
        rows = Record.objects.filter(run__in=runs[start : start + 900]).values_list("run", "candidate", "sha256")
        found |= {(run, name): sha for run, name, sha in rows}
    return found


def _clustered(rows: list[dict[str, Any]], tell: Tell) -> list[dict[str, Any]]:
    """With `dup`: the cluster of near duplicates of one reference, named by its first member."""
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by[row["reference"]].append(row)
    for number, some in enumerate(by.values()):
        tell("Comparing candidates", number, len(by))
        of = {row["sha256"]: row["sha256"] for row in some}
        grams = {row["sha256"]: shingles("\n".join(row["files"][p] for p in sorted(row["files"]))) for row in some}
        for a, b, _ in near_pairs(grams, SAME):
            low, high = sorted((of[a], of[b]))
            of = {key: low if name == high else name for key, name in of.items()}
        for row in some:
            row["dup"] = f"d{of[row['sha256']][:12]}"
    return rows


def _ratings(team: Team, key: str, veil: Mask, tell: Tell) -> Iterator[dict[str, Any]]:
    """Every submitted and skipped assignment, in the order of their making."""
    rows = (
        Assignment.objects.filter(item__project__team=team, state__in=[Held.SUBMITTED, Held.SKIPPED])
        .select_related("item", "review__rubric", "review__revised")
        .prefetch_related("review__ratings", "review__marks")
        .order_by("pk")
    )
    total = rows.count()
    for at, row in enumerate(rows.iterator(chunk_size=1000)):
        tell("Reading labels", at, total)
        yield _rating(row, key, veil)


def _rating(row: Assignment, key: str, veil: Mask) -> dict[str, Any]:
    review: Review | None = row.review if row.state == Held.SUBMITTED else None
    number = review.number if review else 0
    person = f"user {row.user_id}" if row.user_id else f"project {row.item.project_id} reviewer {number}"
    head: dict[str, Any] = {
        "id": f"a{row.pk}", "sha256": row.item.sha256, "pid": pseudonym(key, person), "status": row.state,
        "skip_reason": row.skip_reason, "is_gold": row.item.gold, "active_s": 10.0 * round(row.active_s / 10),
        "day": row.ended_at.date().isoformat() if row.ended_at else "",
    }  # fmt: skip
    if review is None:
        return head | {
            "rubric": "", "levels": {}, "sure": {}, "reasons": {}, "marks": [], "hack_level": "", "hack_types": [],
            "comment": "", "blind": True, "superseded": False, "revised": None,
        }  # fmt: skip
    ratings = sorted(review.ratings.all(), key=lambda r: r.dimension)
    revised = getattr(review, "revised", None)
    return head | {
        "rubric": str(review.rubric),
        "levels": {r.dimension: r.level for r in ratings},
        "sure": {r.dimension: r.sure for r in ratings},
        "reasons": {r.dimension: veil.code(r.reason) for r in ratings},
        "marks": [[m.dimension, m.side, m.file, m.first, m.last, m.text_sha256] for m in review.marks.all()],
        "hack_level": review.hack_level,
        "hack_types": list(review.hack_types),
        "comment": veil.code(review.comment),
        "blind": review.blind,
        "superseded": review.superseded,
        "revised": dict(revised.levels) if revised else None,
    }


def _finals(team: Team, key: str, veil: Mask) -> list[dict[str, Any]]:
    """The newest final label of each item."""
    found: dict[int, dict[str, Any]] = {}
    rows = (
        Adjudication.objects.filter(item__project__team=team, superseded=False).select_related("item", "rubric").order_by("pk")
    )
    for row in rows:
        found[row.item_id] = {
            "id": f"f{row.pk}", "sha256": row.item.sha256, "pid": pseudonym(key, f"user {row.user_id}") if row.user_id else "",
            "rubric": str(row.rubric), "levels": row.levels, "hack_level": row.hack_level, "hack_types": list(row.hack_types),
            "reason": veil.code(row.reason), "day": row.at.date().isoformat(),
        }  # fmt: skip
    return list(found.values())


def _gold(team: Team) -> list[dict[str, Any]]:
    rows = Gold.objects.filter(item__project__team=team).select_related("item").order_by("item__sha256", "pk")
    return [
        {"sha256": row.item.sha256, "answers": row.answers, "hack_levels": row.hack_levels, "hack_why": row.hack_why}
        for row in rows
    ]


def _rubrics(names: Iterable[str]) -> dict[str, Any]:
    """The contents of the rubric versions that labels were given under, and always the newest of all."""
    used = {name for name in names if name}
    rows = list(Rubric.objects.order_by("key", "version"))
    newest = rows[-1:] if rows else []
    return {str(row): row.content for row in rows if str(row) in used or row in newest}
