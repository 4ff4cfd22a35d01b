"""Tasks that a Coder is trained on: from scratch (skill 1) and driven by feedback (skill 2), for TRL and for verl."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agents.training.prompts import coder_messages
from stitchweb.datasets.configs.data import Data, us

Row = dict[str, Any]
HARNESS = "strict/4"


def asked_of(data: Data, candidate: Mapping[str, Any]) -> list[dict[str, str]]:
    """What the author of this candidate was asked."""
    feedback = candidate["skill"] == "feedback"
    return coder_messages(
        data.references[candidate["reference"]]["text"], candidate["target"],
        parent=candidate["parent_files"] if feedback else None, task=candidate["asked"].get("task", ""),
        points=tuple(candidate["asked"].get("points", ())),
    )  # fmt: skip


def _tasks(data: Data) -> Iterator[tuple[Mapping[str, Any], str, float | None]]:
    """Reference, target and the time of eager there, of everything that was run."""
    found: dict[tuple[str, str], float | None] = {}
    for c in data.candidates.values():
        key = (c["reference"], c["target"])
        found[key] = found.get(key) or us(c["measured"]["eager_ms"]) or us(data.references[c["reference"]]["eager_ms"])
    for (reference, target), baseline in sorted(found.items()):
        yield data.references[reference], target, baseline


def _improvements(data: Data) -> Iterator[Mapping[str, Any]]:
    """Candidates that answered feedback on one that is known."""
    for c in data.candidates.values():
        if c["skill"] == "feedback" and c["parent_files"] and c["asked"].get("points"):
            yield c


def grpo_skill1(data: Data) -> Iterator[tuple[str, Row]]:
    for reference, target, baseline in _tasks(data):
        own = {"prompt": coder_messages(reference["text"], target)} | _task(data, reference, target, baseline, "skill1")
        yield str(reference["split"]), own | data.trailer("grpo_skill1", own["task_id"], None, reference=reference)


def _task(data: Data, reference: Mapping[str, Any], target: str, baseline: float | None, skill: str) -> Row:
    return {
        "task_id": f"{reference['ref_id']}/{target}", "skill": skill, "reference_code": reference["text"],
        "harness_id": HARNESS, "gpu_target": target, "baseline_us": baseline, "rubric_ref": data.rubric("")[0],
    }  # fmt: skip


def grpo_skill2(data: Data) -> Iterator[tuple[str, Row]]:
    for c in _improvements(data):
        reference = data.references[c["reference"]]
        own = {"prompt": asked_of(data, c)} | _task(data, reference, c["target"], us(c["measured"]["eager_ms"]), "skill2")
        own["task_id"] += f"/{c['sha256'][:12]}"
        own |= {
            "parent_code": json.dumps(c["parent_files"], sort_keys=True), "parent_speedup": c["asked"].get("parent_speedup"),
            "feedback": "\n".join(c["asked"]["points"]), "feedback_items": c["asked"]["points"],
            "bottleneck": c["asked"].get("bottleneck", ""),
        }  # fmt: skip
        yield data.split(c), own | data.trailer("grpo_skill2", c["sha256"], c)


def verl_skill1(data: Data) -> Iterator[tuple[str, Row]]:
    yield from _verl(data, "verl_skill1", grpo_skill1(data))


def verl_skill2(data: Data) -> Iterator[tuple[str, Row]]:
    yield from _verl(data, "verl_skill2", grpo_skill2(data))


def _verl(data: Data, config: str, rows: Iterator[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """The same tasks as verl's RLHFDataset reads them."""
    count: Counter[str] = Counter()
    for split, row in rows:
        truth = {
            "reference": row["reference_code"], "harness": row["harness_id"], "target": row["gpu_target"],
            "baseline_us": row["baseline_us"], "rubric": row["rubric_ref"],
        }  # fmt: skip
        yield split, {
            "data_source": f"stitchweb/{row['skill']}",
            "prompt": row["prompt"],
            "ability": "cuda",
            "reward_model": {"style": "rule", "ground_truth": json.dumps(truth, sort_keys=True)},
            "extra_info": {
                "split": split, "index": count[split], "task_id": row["task_id"], "ref_group_id": row["ref_group_id"],
                "gpu_target": row["gpu_target"], "parent_code": row.get("parent_code", ""), "feedback": row.get("feedback", ""),
                "parent_speedup": row.get("parent_speedup"),
            },
            "row_id": f"{row['row_id']}v", "ref_group_id": row["ref_group_id"], "meta": row["meta"],
        }  # fmt: skip
        count[split] += 1
