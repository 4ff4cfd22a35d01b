"""The labels themselves: as they were given, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs.data import Data, candidate_id


def raw(data: Data) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every label and every skip, nothing averaged or left out."""
    labelled = {one.sha256: one for one in data.labelled}
    for row in data.snapshot["ratings"]:
        candidate = data.candidates[row["sha256"]]
        own = {
            "annotation_id": row["id"],
            "candidate_id": candidate_id(row["sha256"]),
            "annotator_pid": row["pid"],
            "cohort": "",
            "round": 1,
            "scores": _of_each(row["levels"]),
            "confidence": _of_each(row["sure"]),
            "rationale": {key: row["reasons"].get(key, "") for key in DIMENSIONS},
            "hack_level": row["hack_level"],
            "hack_types": row["hack_types"],
            "overall_comment": row["comment"],
            "line_comments": [_comment(mark) for mark in row["marks"]],
            "blind": row["blind"],
            "judge_shown": False,  # no page shows a judge before the label
            "peers_shown": not row["blind"],
            "pre_reveal_scores": _of_each(row["levels"]) if row["revised"] else None,
            "status": row["status"],
            "skip_reason": row["skip_reason"],
            "time_active_s": row["active_s"],
            "revisions": int(bool(row["revised"])),
            "is_gold": row["is_gold"],
            "guideline_version": row["rubric"],
            "submitted_at": row["day"],
        }
        yield data.split(candidate), own | data.trailer("ratings_raw", row["id"], candidate, labelled.get(row["sha256"]))


def _of_each(values: Mapping[str, int | None]) -> dict[str, int | None]:
    return {key: values.get(key) for key in DIMENSIONS}


def _comment(mark: list[Any]) -> dict[str, Any]:
    dimension, side, file, first, last, sha256 = mark
    return {
        "file": file, "side": side, "start_line": first, "end_line": last, "code_sha256": sha256, "dimension": dimension,
        "category": "evidence", "body": "",
    }  # fmt: skip


def aggregated(data: Data) -> Iterator[tuple[str, dict[str, Any]]]:
    """One row per labelled candidate."""
    for one in data.labelled:
        made = one.made
        own: dict[str, Any] = {"candidate_id": candidate_id(one.sha256)}
        for key in DIMENSIONS:
            own |= {
                f"{key}_median": made.median[key], f"{key}_mean": made.mean[key], f"{key}_n": made.n[key],
                f"{key}_dist": made.dist[key], f"{key}_level": made.level[key],
            }  # fmt: skip
        own |= {
            "hack_level_final": made.hack_level,
            "hack_major_p": made.major_p,
            "label_source": made.source,
            "adjudicator_pid": one.final["pid"] if one.final else "",
        }
        yield data.split(one.candidate), own | data.trailer("ratings_agg", one.sha256, one.candidate, one)
