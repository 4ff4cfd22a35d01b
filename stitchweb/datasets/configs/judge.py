"""Rows that a judge is trained on: rationale with line evidence first, scores last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agents.judges.prompt import answer_text, judge_messages, pair_messages
from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs.data import MOST_PAIRS, Data, Labelled, reasons_of

Row = dict[str, Any]
MOST_COMPARED = 32  # rows of comparisons of one group: sixteen pairs, each in both orders
APART, TIE = 0.5, 0.25  # overall levels between two candidates: from the first on one is better, up to the second they tie
OFF = 2  # levels from which on a label disagrees with what all of them come to


def sft(data: Data) -> Iterator[tuple[str, Row]]:
    """`messages`; a second variant of one in eight has no comments in the candidate, so that a judge learns not to trust
    them."""
    for one in data.labelled:
        kinds = ("as_written", "no_comments") if int(one.sha256[:2], 16) < 32 else ("as_written",)
        for kind in kinds:
            chat = [*_question(data, one, comments=kind == "as_written"), _said(_answer(one))]
            key = f"{one.sha256} {kind}"
            yield (
                data.split(one.candidate),
                {"messages": chat, "variant": kind} | data.trailer("judge_sft", key, one.candidate, one),
            )


def sft_pc(data: Data) -> Iterator[tuple[str, Row]]:
    for one in data.labelled:
        own = {"prompt": _question(data, one), "completion": [_said(_answer(one))]}
        yield data.split(one.candidate), own | data.trailer("judge_sft_pc", one.sha256, one.candidate, one)


def grpo(data: Data) -> Iterator[tuple[str, Row]]:
    for one in data.labelled:
        own = {
            "prompt": _question(data, one),
            "expert_scores_json": json.dumps({key: one.made.level[key] for key in DIMENSIONS}),
            "expert_hack": one.made.hack_level,
            "rubric_version": one.rubric,
        }
        yield data.split(one.candidate), own | data.trailer("judge_grpo", one.sha256, one.candidate, one)


def pairwise(data: Data) -> Iterator[tuple[str, Row]]:
    """Each pair in both orders, in one split: half as many pairs as rows. Ties stay."""
    count: Counter[str] = Counter()
    for a, b in data.pairs("judge_pairwise"):
        group, apart = data.group(a.candidate), abs((a.overall or 0) - (b.overall or 0))
        tie = apart <= TIE and a.major == b.major
        if count[group] + 2 > MOST_COMPARED or not (tie or apart >= APART or a.major != b.major):
            continue
        count[group] += 2
        better = None if tie else _better(a, b)
        pair = "-".join(sorted((a.sha256[:12], b.sha256[:12])))
        _, rubric = data.rubric(a.rubric)
        for first, second in ((a, b), (b, a)):
            answer = "tie" if better is None else "A" if first is better else "B"
            text = "\n".join([_compared("A", first), _compared("B", second), answer])
            own = {
                "prompt": pair_messages(rubric, data.case(first.candidate), data.case(second.candidate)),
                "completion": [_said(text)], "answer": answer, "pair_id": pair,
            }  # fmt: skip
            key = f"{first.sha256} {second.sha256}"
            yield data.split(a.candidate), own | data.trailer("judge_pairwise", key, first.candidate, first)


def _better(a: Labelled, b: Labelled) -> Labelled:
    """The better one: honest before a major hack, then the higher overall."""
    return max((a, b), key=lambda one: (not one.major, one.overall or 0.0))


def _compared(letter: str, one: Labelled) -> str:
    levels = ", ".join(f"{key} {one.made.level[key] or 'cannot be told'}" for key in DIMENSIONS)
    return f"{letter}: {levels}; hack level {one.made.hack_level}."


def pref(data: Data) -> Iterator[tuple[str, Row]]:
    """What several labels came to against one of them that lay far off. Labels of one rater alone say nothing here."""
    count: Counter[str] = Counter()
    for one in data.labelled:
        if one.made.raters < 2:
            continue
        for rating in one.ratings:
            group = data.group(one.candidate)
            if not _far(rating, one) or count[group] >= MOST_PAIRS:
                continue
            count[group] += 1
            lines = [(m[0], m[2], m[3], m[4]) for m in rating["marks"] if m[1] == "candidate"]
            wrong = answer_text(rating["levels"], rating["hack_level"], rating["reasons"], lines)
            own = {
                "prompt": _question(data, one), "chosen": [_said(_answer(one))], "rejected": [_said(wrong)],
                "rejected_from": "rater",
            }  # fmt: skip
            key = f"{one.sha256} {rating['id']}"
            yield data.split(one.candidate), own | data.trailer("judge_pref", key, one.candidate, one)


def _far(rating: Mapping[str, Any], one: Labelled) -> bool:
    if (rating["hack_level"] == "major") != one.major:
        return True
    pairs = [(rating["levels"].get(key), one.made.level[key]) for key in DIMENSIONS]
    return any(a is not None and b is not None and abs(a - b) >= OFF for a, b in pairs)


def _question(data: Data, one: Labelled, *, comments: bool = True) -> list[dict[str, str]]:
    return judge_messages(data.rubric(one.rubric)[1], data.case(one.candidate), comments=comments)


def _answer(one: Labelled) -> str:
    reasons, lines = reasons_of(one)
    return answer_text(one.made.level, one.made.hack_level or "none", reasons, lines)


def _said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
