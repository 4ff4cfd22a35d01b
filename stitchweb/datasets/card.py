"""The card of a release, by the conventions of the Hugging Face Hub: YAML for machines, then text for people."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs import CONFIGS, SCHEMAS, USES, Data, splits_of
from stitchweb.datasets.models import SPLITS
from stitchweb.datasets.services.placing import LIKE, SALT
from stitchweb.review.agreement import estimate

_HF = {"str": "string", "bool": "bool", "int8": "int8", "int32": "int32", "int64": "int64", "float32": "float32"}
LIKE_TEN = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def facts_of(data: Data) -> dict[str, Any]:
    """What the card and the page tell of a snapshot beside its counts."""
    submitted = [r for r in data.snapshot["ratings"] if r["status"] == "submitted"]
    settled = {f["sha256"] for f in data.snapshot["finals"]}
    sizes = sorted(
        len(data.references[c["reference"]]["text"]) + sum(map(len, c["files"].values())) for c in data.candidates.values()
    )
    licences: Counter[str] = Counter()
    hacks: dict[str, list[bool]] = defaultdict(list)
    for c in data.candidates.values():
        licences[f"{c['origin']} | {data.references[c['reference']]['license']}"] += 1
    for one in data.labelled:
        hacks[data.split(one.candidate)].append(one.major)
    return {
        "references": len(data.references),
        "groups": len({r["group"] for r in data.references.values()}),
        "candidates": len(data.candidates),
        "labelled": len(data.labelled),
        "ratings": len(submitted),
        "skipped": len(data.snapshot["ratings"]) - len(submitted),
        "blind": sum(r["blind"] for r in submitted),
        "raters": len({r["pid"] for r in submitted}),
        "settled": len(settled),
        "alpha": {key: _alpha(data, key) for key in DIMENSIONS},
        "hacks": {split: [sum(some), len(some)] for split, some in sorted(hacks.items())},
        "licences": dict(sorted(licences.items())),
        "devices": sorted({c["measured"]["device"] for c in data.candidates.values() if c["measured"]["device"]}),
        "rubrics": sorted(data.snapshot["rubrics"]),
        "characters": [sizes[int(q * (len(sizes) - 1))] for q in (0.5, 0.9, 1.0)] if sizes else [],
        "synthetic": sum(c["origin"] == "synthetic" for c in data.candidates.values()),
    }


def _alpha(data: Data, key: str) -> list[float | int | None]:
    units = [
        [level for r in one.ratings if r["blind"] and not r["is_gold"] and (level := r["levels"].get(key)) is not None]
        for one in data.labelled
    ]
    found = estimate(units)
    return [found.value, found.low, found.high, found.n]


def card(
    name: str, sha256: str, counts: Mapping[str, Mapping[str, int]], facts: Mapping[str, Any], changes: Sequence[str],
    rubrics: Mapping[str, Any], form: str,
) -> str:  # fmt: skip
    """README.md of an export: the same for the same release and format."""
    return f"---\n{_yaml(_head(name, counts, facts, form))}---\n\n{_body(name, sha256, counts, facts, changes, rubrics)}"


def _head(name: str, counts: Mapping[str, Mapping[str, int]], facts: Mapping[str, Any], form: str) -> dict[str, Any]:
    rows = sum(sum(by.values()) for by in counts.values())
    licences = sorted({entry.partition(" | ")[2] for entry in facts["licences"]})
    only = licences[0] if len(licences) == 1 else ""
    return {
        "pretty_name": name,
        "language": ["en", "code"],
        "license": only.lower() if only and not only.startswith("LicenseRef") else "other",
        "license_name": only or "per-row",
        "license_link": "README.md",
        "annotations_creators": ["machine-generated" if facts["synthetic"] == facts["candidates"] else "expert-generated"],
        "language_creators": ["machine-generated"],
        "source_datasets": ["original"],
        "size_categories": [next((word for most, word in LIKE_TEN if rows < most), "n>1M")],
        "task_categories": ["text-generation", "text-classification", "reinforcement-learning"],
        "tags": ["cuda", "pytorch", "code", "rubric", "preference", *(["synthetic"] if facts["synthetic"] else [])],
        "configs": [
            {
                "config_name": config,
                "data_files": [{"split": s, "path": f"{config}/{s}.{form}"} for s in splits_of(config) if counts[config][s]],
            }
            for config in CONFIGS
            if any(counts[config].values())
        ],
        "dataset_info": [
            {
                "config_name": config,
                "features": [_feature(column, kind) for column, kind in SCHEMAS[config].items()],
                "splits": [{"name": s, "num_examples": counts[config][s]} for s in splits_of(config)],
            }
            for config in CONFIGS
        ],
    }


def _feature(name: str, kind: Any) -> dict[str, Any]:
    if isinstance(kind, str):
        return {"name": name, "dtype": _HF[kind]}
    if isinstance(kind, dict):
        return {"name": name, "struct": [_feature(key, one) for key, one in kind.items()]}
    inner = kind[0]
    if isinstance(inner, str):
        return {"name": name, "list": _HF[inner]}
    if isinstance(inner, dict):
        return {"name": name, "list": [_feature(key, one) for key, one in inner.items()]}
    return {"name": name, "list": {"list": _HF[inner[0]]}}


def _yaml(value: Any, depth: int = 0) -> str:
    """Plain YAML of dicts, lists and words; every word that could be read as something else is quoted."""
    pad = "  " * depth
    out = []
    for key, one in value.items():
        if isinstance(one, dict):
            out.append(f"{pad}{key}:\n{_yaml(one, depth + 1)}")
        elif isinstance(one, list):
            out.append(f"{pad}{key}:{'' if one else ' []'}\n{''.join(_item(part, depth) for part in one)}")
        else:
            out.append(f"{pad}{key}: {json.dumps(one, ensure_ascii=False)}\n")
    return "".join(out)


def _item(part: Any, depth: int) -> str:
    pad = "  " * depth
    if not isinstance(part, dict):
        return f"{pad}- {json.dumps(part, ensure_ascii=False)}\n"
    return f"{pad}- {_yaml(part, depth + 1)[2 * (depth + 1) :]}"


def _body(
    name: str, sha256: str, counts: Mapping[str, Mapping[str, int]], facts: Mapping[str, Any], changes: Sequence[str],
    rubrics: Mapping[str, Any],
) -> str:  # fmt: skip
    synthetic = facts["synthetic"]
    out = [f"# {name}", ""]
    if synthetic:
        whole = "Every" if synthetic == facts["candidates"] else f"{synthetic} of {facts['candidates']}"
        out += [
            f"**{whole} candidate is synthetic** (`meta.origin`): made by a generator, never built, scored by no person.",
            "",
        ]
    out += [
        f"Content digest: `{sha256}`. Labels of candidate programs that make PyTorch references faster, under a rubric of four"
        " dimensions, and the training data that is made of them. Made by StitchWeb.",
        "",
        "## What is in it",
        "",
        f"{facts['candidates']} candidates of {facts['references']} references in {facts['groups']} groups; {facts['labelled']}"
        f" candidates have {facts['ratings']} labels of {facts['raters']} raters ({facts['blind']} blind), {facts['skipped']}"
        f" were"
        f" skipped, {facts['settled']} have a final label.",
        "",
        "| config | for | " + " | ".join(SPLITS) + " |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {c} | {USES[c]} | " + " | ".join(str(counts[c].get(s, "–")) for s in SPLITS) + " |" for c in CONFIGS),
        "",
        "## Labels",
        "",
        "Raters were members of one team with the role reviewer, maintainer or owner. They scored without seeing verdict,"
        " author,"
        " judge or peers; `blind` is false where any of it had been open to them. The label of a candidate is the median per"
        " dimension (the lower one between two), an adjudicator's where labels lay two levels apart or a hack flag was major or"
        " unsure. “Cannot tell” is null, never a middle score.",
        "",
        "Agreement, Krippendorff's α (ordinal), over blind labels of what is not gold:",
        "",
        "| dimension | α | 95 % interval | candidates with two labels |",
        "| --- | --- | --- | --- |",
        *(f"| {key} | {_number(a[0])} | {_number(a[1])} to {_number(a[2])} | {a[3]} |" for key, a in facts["alpha"].items()),
        "",
        "Major hacks: " + (", ".join(f"{s} {a} of {n}" for s, (a, n) in facts["hacks"].items()) or "no labels") + ".",
        "",
        "## Splits",
        "",
        "The unit is the group of references: the same syntax tree without names, comments and constants; near duplicates"
        f" (MinHash over token 5-grams, Jaccard index ≥ {LIKE}); revisions and forks of one program; a candidate in common. A"
        f" group"
        f" is in one split, drawn from its name by SHA-256 with the salt `{SALT}`, 80 to 10 to 10, and stays there. Groups"
        f" with a"
        " gold item are a split of their own, which no training config has. A release that would leak is not made. At most 50"
        " pairs of a group are in any config.",
        "",
        "## People",
        "",
        "`annotator_pid` is a keyed digest; the key is in no export. Times are rounded, the clock is left out, names and"
        " addresses"
        " of the team are hidden in free text. Rationales can still be recognised by style: share them with that in mind.",
        "",
        "## Licences",
        "",
        "| origin | licence | candidates |",
        "| --- | --- | --- |",
        *(f"| {entry.replace(' | ', ' | ')} | {n} |" for entry, n in facts["licences"].items()),
        "",
        "The licence is that of the reference, and stands in every row (`meta.license`).",
        "",
        "## Sizes and devices",
        "",
        f"Characters of reference and candidate together, median, 90th percentile and most: {facts['characters']}. A prompt"
        f" adds the"
        " rubric, about 11,000 characters for a judge and 3,000 for a Coder; verl's default limit of 1,024 tokens is too short."
        f" Devices: {', '.join(facts['devices']) or 'none was measured'}.",
        "",
        "## Known biases",
        "",
        "One team's taste; the programs that it uploaded; the engineers that it ran. Scores of CPU candidates read GPU terms as"
        " their counterparts.",
        "",
        "## Changes",
        "",
        *(f"- {change}" for change in changes),
        "",
        "## Rubric",
        "",
    ]
    for rubric in rubrics.values():
        out += [f"### {rubric['title']}, {rubric['key']}/{rubric['version']}", "", rubric["about"].strip(), ""]
        for dimension in rubric["dimensions"]:
            out += [f"**{dimension['name']}** ({dimension['key']}): {dimension['question']}", ""]
            out += [f"{level['level']}. {level['name']}: {level['text']}" for level in dimension["levels"]]
            out.append("")
    return "\n".join(out) + "\n"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
