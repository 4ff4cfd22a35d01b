"""The columns of every config. A type is a word, [type] for a list, a dict for a struct of fixed keys."""

from __future__ import annotations

from typing import Any

from agents.rubric import DIMENSIONS

Type = Any  # "str" | "bool" | "int8" | "int32" | "int64" | "float32" | [Type] | dict[str, Type]

CHAT: Type = [{"role": "str", "content": "str"}]
LEVELS: Type = dict.fromkeys(DIMENSIONS, "int8")
TEXTS: Type = dict.fromkeys(DIMENSIONS, "str")
META: Type = {
    "schema_version": "str", "skill": "str", "ref_id": "str", "ref_sha256": "str", "candidate_id": "str",
    "candidate_sha256": "str", "candidate_norm_sha256": "str", "dup_cluster_id": "str", "dup_count": "int32",
    "parent_candidate_id": "str", "run_id": "str", "iteration": "int32", "coder_model": "str", "gpu_name": "str", "sm": "str",
    "cuda_version": "str", "compiled": "bool", "correct": "bool", "speedup": "float32", "runtime_us": "float32",
    "ref_runtime_us": "float32", "rubric_id": "str", "rubric_version": "str", "label_source": "str", "n_annotators": "int32",
    "blind": "bool", "license": "str", "origin": "str", "consent_version": "str", "created_at": "str",
}  # fmt: skip
TRAILER: Type = {"row_id": "str", "ref_group_id": "str", "meta": META}

_GRPO: Type = {
    "prompt": CHAT, "task_id": "str", "skill": "str", "reference_code": "str", "harness_id": "str", "gpu_target": "str",
    "baseline_us": "float32", "rubric_ref": "str",
}  # fmt: skip
_VERL: Type = {
    "data_source": "str", "prompt": CHAT, "ability": "str", "reward_model": {"style": "str", "ground_truth": "str"},
    "extra_info": {
        "split": "str", "index": "int64", "task_id": "str", "ref_group_id": "str", "gpu_target": "str", "parent_code": "str",
        "feedback": "str", "parent_speedup": "float32",
    },
}  # fmt: skip
_OWN: dict[str, Type] = {
    "ratings_raw": {
        "annotation_id": "str", "candidate_id": "str", "annotator_pid": "str", "cohort": "str", "round": "int32",
        "scores": LEVELS, "confidence": LEVELS, "rationale": TEXTS, "hack_level": "str", "hack_types": ["str"],
        "overall_comment": "str",
        "line_comments": [{
            "file": "str", "side": "str", "start_line": "int32", "end_line": "int32", "code_sha256": "str", "dimension": "str",
            "category": "str", "body": "str",
        }],
        "blind": "bool", "judge_shown": "bool", "peers_shown": "bool", "pre_reveal_scores": LEVELS, "status": "str",
        "skip_reason": "str", "time_active_s": "float32", "revisions": "int32", "is_gold": "bool", "guideline_version": "str",
        "submitted_at": "str",
    },
    "ratings_agg": {
        "candidate_id": "str",
        **{f"{d}_{what}": "float32" for d in DIMENSIONS for what in ("median", "mean")},
        **{f"{d}_n": "int32" for d in DIMENSIONS},
        **{f"{d}_dist": ["float32"] for d in DIMENSIONS},
        **{f"{d}_level": "int8" for d in DIMENSIONS},
        "hack_level_final": "str", "hack_major_p": "float32", "label_source": "str", "adjudicator_pid": "str",
    },
    "judge_sft": {"messages": CHAT, "variant": "str"},
    "judge_sft_pc": {"prompt": CHAT, "completion": CHAT},
    "judge_pairwise": {"prompt": CHAT, "completion": CHAT, "answer": "str", "pair_id": "str"},
    "judge_pref": {"prompt": CHAT, "chosen": CHAT, "rejected": CHAT, "rejected_from": "str"},
    "program_pref": {"prompt": CHAT, "chosen": CHAT, "rejected": CHAT, "margin": "float32"},
    "program_pref_flat": {"prompt": "str", "chosen": "str", "rejected": "str"},
    "pointwise": {
        "text": "str", "labels": ["float32"], "label_mask": ["float32"], "levels": ["int8"], "dist": [["float32"]],
        "hack_target": "int8", "sample_weight": "float32",
    },
    "hack_unpaired": {"prompt": CHAT, "completion": CHAT, "label": "bool"},
    "judge_grpo": {"prompt": CHAT, "expert_scores_json": "str", "expert_hack": "str", "rubric_version": "str"},
    "grpo_skill1": _GRPO,
    "grpo_skill2": {
        **_GRPO, "parent_code": "str", "parent_speedup": "float32", "feedback": "str", "feedback_items": ["str"],
        "bottleneck": "str",
    },
    "verl_skill1": _VERL,
    "verl_skill2": _VERL,
}  # fmt: skip
SCHEMAS: dict[str, Type] = {name: {**own, **TRAILER} for name, own in _OWN.items()}
