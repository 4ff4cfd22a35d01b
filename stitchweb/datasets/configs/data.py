"""A frozen snapshot, read once: candidates with their labels, groups and splits, and what every row ends with."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from agents.judges import Case
from agents.rubric import DIMENSIONS, Given, Made, aggregate

SCHEMA_VERSION = "1"
MOST_PAIRS = 50  # of one group in one config
FEW = 40  # candidates of one reference, up to which every pair is looked at


@dataclass(frozen=True)
class Labelled:
    """A candidate with its labels. `ratings`: submitted and not superseded; `made`: what they come to."""

    candidate: Mapping[str, Any]
    ratings: Sequence[Mapping[str, Any]]
    final: Mapping[str, Any] | None
    made: Made

    @property
    def sha256(self) -> str:
        return str(self.candidate["sha256"])

    @property
    def major(self) -> bool:
        return self.made.hack_level == "major"

    @cached_property
    def overall(self) -> float | None:
        """The mean level over the dimensions that were told, None without any."""
        told = [level for level in self.made.level.values() if level is not None]
        return sum(told) / len(told) if told else None

    @property
    def rubric(self) -> str:
        return str(self.final["rubric"] if self.final else self.ratings[0]["rubric"] if self.ratings else "")

    @property
    def blind(self) -> bool:
        return all(row["blind"] for row in self.ratings)


@dataclass
class Data:
    """All that the configs are made of. `snapshot` as `stitchweb.datasets.snapshot.freeze` made it."""

    snapshot: Mapping[str, Any]
    references: dict[str, Mapping[str, Any]] = field(init=False)
    candidates: dict[str, Mapping[str, Any]] = field(init=False)
    ratings: dict[str, list[Mapping[str, Any]]] = field(init=False)
    labelled: list[Labelled] = field(init=False)

    def __post_init__(self) -> None:
        self.references = {r["sha256"]: r for r in self.snapshot["references"]}
        self.candidates = {c["sha256"]: c for c in self.snapshot["candidates"]}
        self.ratings = defaultdict(list)
        for row in self.snapshot["ratings"]:
            self.ratings[row["sha256"]].append(row)
        finals = {row["sha256"]: row for row in self.snapshot["finals"]}
        gold = {row["sha256"]: row for row in self.snapshot["gold"]}
        self.labelled = [
            made for sha, c in self.candidates.items() if (made := self._labelled(c, finals.get(sha), gold.get(sha)))
        ]

    def _labelled(
        self, candidate: Mapping[str, Any], final: Mapping[str, Any] | None, gold: Mapping[str, Any] | None
    ) -> Labelled | None:
        some = [r for r in self.ratings[candidate["sha256"]] if r["status"] == "submitted" and not r["superseded"]]
        if not some and final is None:
            return None
        given = [Given(r["levels"], r["hack_level"]) for r in some]
        over = Given(final["levels"], final["hack_level"]) if final else None
        answer = Given({k: a["levels"][0] for k, a in gold["answers"].items()}, gold["hack_levels"][0]) if gold else None
        return Labelled(candidate, some, final, aggregate(given, over, answer))

    def split(self, candidate: Mapping[str, Any]) -> str:
        return str(self.references[candidate["reference"]]["split"])

    def group(self, candidate: Mapping[str, Any]) -> str:
        return str(self.references[candidate["reference"]]["group"])

    def rubric(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Name and content of a rubric version, the newest where it is not there."""
        rubrics = self.snapshot["rubrics"]
        name = name if name in rubrics else max(rubrics)
        return name, rubrics[name]

    def case(self, candidate: Mapping[str, Any]) -> Case:
        """The candidate as a judge sees it."""
        return case_of(self.references[candidate["reference"]]["text"], candidate)

    def trailer(
        self, config: str, key: str, candidate: Mapping[str, Any] | None, label: Labelled | None = None,
        reference: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What every row ends with. `key`: what is told apart within the config."""
        ref = reference or self.references[candidate["reference"]]  # type: ignore[index]
        made = label.made if label else None
        meta: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION, "skill": "", "ref_id": ref["ref_id"], "ref_sha256": ref["sha256"],
            "candidate_id": "", "candidate_sha256": "", "candidate_norm_sha256": "", "dup_cluster_id": "", "dup_count": 0,
            "parent_candidate_id": "", "run_id": "", "iteration": 0, "coder_model": "", "gpu_name": "", "sm": "",
            "cuda_version": "", "compiled": None, "correct": None, "speedup": None, "runtime_us": None,
            "ref_runtime_us": us(ref["eager_ms"]), "rubric_id": label.rubric.partition("/")[0] if label else "",
            "rubric_version": label.rubric if label else "", "label_source": made.source if made else "",
            "n_annotators": made.raters if made else 0, "blind": label.blind if label else None, "license": ref["license"],
            "origin": "synthetic" if ref["synthetic"] else "run", "consent_version": "team-internal/1", "created_at": "",
        }  # fmt: skip
        if candidate:
            meta |= self._of_candidate(candidate, label)
        return {"row_id": row_id(config, key), "ref_group_id": ref["group"], "meta": meta}

    def _of_candidate(self, c: Mapping[str, Any], label: Labelled | None) -> dict[str, Any]:
        measured, inputs = c["measured"], c["inputs"]
        days = [row["day"] for row in label.ratings] if label else []
        return {
            "skill": "skill2" if c["skill"] == "feedback" else "skill1", "candidate_id": candidate_id(c["sha256"]),
            "candidate_sha256": c["sha256"], "candidate_norm_sha256": c["norm"], "dup_cluster_id": c["dup"],
            "dup_count": c["count"], "parent_candidate_id": candidate_id(c["parent"]) if c["parent"] else "",
            "run_id": f"run-{c['run']}", "iteration": c["number"], "coder_model": c["coder"], "gpu_name": measured["device"],
            "sm": c["target"], "cuda_version": measured["cuda"], "compiled": measured["built"],
            "correct": inputs["verified"] if c["verdict"] else None, "speedup": inputs["speedup"],
            "runtime_us": us(measured["ms"]),
            "ref_runtime_us": us(measured["eager_ms"]) or us(self.references[c["reference"]]["eager_ms"]),
            "origin": c["origin"], "created_at": max(days, default=""),
        }  # fmt: skip

    @cached_property
    def _by_reference(self) -> dict[str, list[Labelled]]:
        found: dict[str, list[Labelled]] = defaultdict(list)
        for one in self.labelled:
            found[one.candidate["reference"]].append(one)
        return found

    def pairs(self, config: str) -> Iterator[tuple[Labelled, Labelled]]:
        """Pairs of labelled candidates that may be compared, group by group, each group's in an order of its own: of one
        reference, one target, one rubric version, both of which build, and no duplicates of each other."""
        groups: dict[str, list[list[Labelled]]] = defaultdict(list)
        for reference, some in sorted(self._by_reference.items()):
            able = [one for one in some if one.candidate["measured"]["built"] and one.overall is not None]
            groups[self.references[reference]["group"]].append(able)
        for group, parts in sorted(groups.items()):
            chance = random.Random(f"{config} {group}")  # noqa: S311  the same pairs every time
            found = [pair for able in parts for pair in _drawn(able, chance)]
            chance.shuffle(found)
            yield from found


def case_of(reference: str, candidate: Mapping[str, Any]) -> Case:
    """What a judge sees of a candidate: the reference's text, and of a snapshot's candidate what is named here."""
    asked = candidate["asked"]
    inputs, measured = candidate["inputs"], candidate["measured"]
    numbers = {
        "speedup": inputs.get("speedup"), "speedup_compile": inputs.get("speedup_compile"),
        "verified": float(bool(inputs.get("verified"))), "hack_found": float(bool(inputs.get("hack_found"))),
        **{key: measured.get(key) for key in ("error_ratio", "signal_error", "coverage", "rows_failed", "ms", "eager_ms")},
    }  # fmt: skip
    return Case(
        reference=reference, files=candidate["files"], parent=candidate["parent_files"], skill=candidate["skill"],
        target=candidate["target"], task=asked.get("task", ""), points=tuple(asked.get("points", ())),
        facts=tuple(candidate["facts"]), measured=numbers,
    )  # fmt: skip


def _drawn(able: Sequence[Labelled], chance: random.Random) -> list[tuple[Labelled, Labelled]]:
    if len(able) <= FEW:
        every = list(combinations(able, 2))
    else:
        picks = {tuple(sorted(chance.sample(range(len(able)), 2))) for _ in range(20 * MOST_PAIRS)}
        every = [(able[i], able[k]) for i, k in sorted(picks)]
    return [
        (a, b)
        for a, b in every
        if a.candidate["target"] == b.candidate["target"] and a.rubric == b.rubric and a.candidate["dup"] != b.candidate["dup"]
    ]


def us(ms: float | None) -> float | None:
    """Microseconds of milliseconds."""
    return None if ms is None else 1000 * ms


def candidate_id(sha256: str) -> str:
    return f"cand-{sha256[:16]}"


def row_id(config: str, key: str) -> str:
    return hashlib.sha256(f"{config} {key}".encode()).hexdigest()[:20]


def reasons_of(one: Labelled) -> tuple[dict[str, str], list[tuple[str, str, int, int]]]:
    """The rationale for what the labels come to: of those who gave the final level, the first that said something; with all
    marks of theirs in the candidate."""
    reasons: dict[str, str] = {}
    lines: list[tuple[str, str, int, int]] = []
    for key in DIMENSIONS:
        right = [r for r in one.ratings if r["levels"].get(key) == one.made.level[key]]
        reasons[key] = next((r["reasons"][key] for r in right if r["reasons"].get(key)), "")
        for row in right:
            lines += [(key, m[2], m[3], m[4]) for m in row["marks"] if m[0] == key and m[1] == "candidate"]
    if one.final and one.final["reason"]:
        reasons[DIMENSIONS[0]] = " ".join(filter(None, [one.final["reason"], reasons[DIMENSIONS[0]]]))
    return reasons, lines
