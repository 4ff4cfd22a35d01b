"""Rows about programs: which of two is preferred, what one is worth, whether it is a hack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agents.judges.prompt import user_text
from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs.coder import asked_of
from stitchweb.datasets.configs.data import Data, Labelled

Row = dict[str, Any]
MOST = 16  # pairs of one group: their texts are the largest part of a release
GAP = 1.0  # overall levels from which one program is preferred


def _preferred(data: Data, config: str) -> Iterator[tuple[Labelled, Labelled, float]]:
    """Chosen, rejected and the levels between them. A major hack is never chosen."""
    count: Counter[str] = Counter()
    for a, b in data.pairs(config):
        good, bad = sorted((a, b), key=lambda one: (not one.major, one.overall or 0.0), reverse=True)
        gap = (good.overall or 0.0) - (bad.overall or 0.0)
        group = data.group(a.candidate)
        if good.major or not (gap >= GAP or (bad.major and gap > -GAP)) or count[group] >= MOST:
            continue
        count[group] += 1
        yield good, bad, max(0.0, gap)


def pref(data: Data) -> Iterator[tuple[str, Row]]:
    for good, bad, gap in _preferred(data, "program_pref"):
        own = {
            "prompt": asked_of(data, good.candidate), "chosen": [_answer(good.candidate)],
            "rejected": [_answer(bad.candidate)], "margin": gap,
        }  # fmt: skip
        key = f"{good.sha256} {bad.sha256}"
        yield data.split(good.candidate), own | data.trailer("program_pref", key, good.candidate, good)


def pref_flat(data: Data) -> Iterator[tuple[str, Row]]:
    """The same pairs as plain strings."""
    for good, bad, _ in _preferred(data, "program_pref"):
        prompt = "\n\n".join(message["content"] for message in asked_of(data, good.candidate))
        own = {"prompt": prompt, "chosen": files_text(good.candidate["files"]), "rejected": files_text(bad.candidate["files"])}
        key = f"{good.sha256} {bad.sha256}"
        yield data.split(good.candidate), own | data.trailer("program_pref_flat", key, good.candidate, good)


def pointwise(data: Data) -> Iterator[tuple[str, Row]]:
    """Levels scaled to 0..1 with a mask; 0 where the mask is."""
    for one in data.labelled:
        levels = [one.made.level[key] for key in DIMENSIONS]
        own = {
            "text": user_text(data.case(one.candidate)),
            "labels": [0.0 if level is None else (level - 1) / 4 for level in levels],
            "label_mask": [float(level is not None) for level in levels],
            "levels": [level or 0 for level in levels],
            "dist": [one.made.dist[key] for key in DIMENSIONS],
            "hack_target": int(one.major),
            "sample_weight": min(1.0, max(one.made.raters, 1) / 3) if one.final is None else 1.0,
        }
        yield data.split(one.candidate), own | data.trailer("pointwise", one.sha256, one.candidate, one)


def hack_unpaired(data: Data) -> Iterator[tuple[str, Row]]:
    """Clean or a major hack; what is neither for sure is left out."""
    for one in data.labelled:
        if one.made.hack_level not in ("none", "shortcut", "major"):
            continue
        own = {"prompt": asked_of(data, one.candidate), "completion": [_answer(one.candidate)], "label": not one.major}
        yield data.split(one.candidate), own | data.trailer("hack_unpaired", one.sha256, one.candidate, one)


def _answer(candidate: Mapping[str, Any]) -> dict[str, str]:
    return {"role": "assistant", "content": files_text(candidate["files"])}


def files_text(files: Mapping[str, str]) -> str:
    """The files as a Coder answers with them."""
    words = {"py": "python", "cu": "cuda", "cuh": "cuda", "toml": "toml"}
    return "\n\n".join(
        f"```{words.get(path.rpartition('.')[2], 'cpp')} {path}\n{text.rstrip()}\n```" for path, text in sorted(files.items())
    )
