"""Compares results. No user code in this process; it answers with numbers, the verdict's rules stand in the parent.

Every comparison is done in double precision, in blocks, by one thread: two that wait for each other beside anything else take
longer, and spin afterwards beside what is measured next. What is compared can change no more (`values.settled`). The *truth* is
the fp64 result where there is one, else eager's own. Places of NaN and infinity are eager's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import torch

from . import ceilings, tensors
from .arm import one_thread
from .results import Baseline, compare_leaf, differing, flattened, mean, squares
from .ties import ties

NULL_SAMPLE = 1 << 14
SIGNAL_SAMPLE = 1 << 18  # elements at most that stand for a result when its variation over draws is measured


class _Signal:
    """What the inputs change in one result: the variation over draws around their mean, elementwise, in double precision."""

    def __init__(self) -> None:
        self.pivot: torch.Tensor | None = None
        self.sum: torch.Tensor | None = None
        self.squares = 0.0
        self.count = 0

    def add(self, truth: torch.Tensor) -> None:
        values = flattened(truth)
        flat = values[:: max(1, values.numel() // SIGNAL_SAMPLE)].double().nan_to_num(0.0, 0.0, 0.0)
        if self.pivot is None or self.sum is None:
            self.pivot, self.sum = flat.clone(), torch.zeros_like(flat)
        elif flat.shape != self.pivot.shape:
            return
        difference = flat - self.pivot
        self.sum += difference
        self.squares += squares(difference) / max(1, flat.numel())
        self.count += 1

    def value(self) -> float | None:
        """RMS over draws, unbiased; None before the second draw."""
        if self.count < 2 or self.sum is None or self.sum.numel() == 0:
            return None
        mean = squares(self.sum / self.count) / self.sum.numel()
        return math.sqrt(max(0.0, self.squares / self.count - mean) * self.count / (self.count - 1))


_signals: dict[str, list[_Signal]] = {}


def _floating(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _baselines(eager: list[Any], truth: list[Any] | None, payload: dict[str, Any]) -> list[Baseline | None]:
    """`allclose` in the payload: eager is the truth, and absolute errors are what they are."""
    found: list[Baseline | None] = []
    unit = 1.0 if payload.get("allclose") else None
    truth = None if payload.get("allclose") else truth
    for i, e in enumerate(eager):
        t = truth[i] if truth is not None and len(truth) == len(eager) else None
        usable = (
            isinstance(t, torch.Tensor) and t.shape == e.shape and t.is_complex() == e.is_complex() if _floating(e) else False
        )
        found.append(Baseline(e, t if usable else None, unit) if _floating(e) else None)
    return found


def _leaves(manifest: dict[str, Any] | None, fd: int) -> list[Any] | None:
    return None if manifest is None else tensors.view(manifest, fd)


def compare(payload: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
    """Candidate against eager and truth. `group` adds the truth to that group's signal."""
    if payload["candidate"]["tree"] != payload["eager"]["tree"]:
        return {"structure": [payload["candidate"]["tree"], payload["eager"]["tree"]], "leaves": []}
    order = _order(payload["candidate"]["tree"], payload["eager"]["tree"])
    found = _leaves(payload["candidate"], fds["candidate"]) or []
    candidate = [found[i] for i in order]
    eager = _leaves(payload["eager"], fds["eager"]) or []
    truth = _leaves(payload.get("truth"), fds.get("truth", -1))
    if payload.get("group") is not None:
        _add_signal(payload["group"], truth if truth is not None and len(truth) == len(eager) else eager)
    slack = payload.get("slack") or [0.0] * len(eager)
    leaves = [
        compare_leaf(c, e, base, _tolerance(payload["rtol"], e), payload["slack_ratio"], allowed)
        for c, e, base, allowed in zip(candidate, eager, _baselines(eager, truth, payload), slack, strict=True)
    ]
    sources = _leaves(payload.get("sources"), fds.get("sources", -1)) or []
    for (i, dim, several), source in zip(payload.get("selections") or [], sources, strict=True):
        if leaves[i].get("mismatches"):
            leaves[i]["ties"] = ties(candidate[i], eager[i], source, dim, several)
    described = [payload["candidate"]["leaves"][i] for i in order]
    for mine, theirs, numbers in zip(described, payload["eager"]["leaves"], leaves, strict=True):
        if "shape" in numbers:
            numbers["device"] = [str(entry.get("device", ""))[:20] for entry in (mine, theirs)]
            numbers["format"] = [tensors.memory_format(entry["shape"], entry["stride"]) for entry in (mine, theirs)]
    if payload.get("bits"):
        for c, e, numbers in zip(candidate, eager, leaves, strict=True):
            if numbers.get("bits_equal") is False:
                numbers["differing"] = differing(c, e)
    against = {
        name: {"leaves": _against(candidate, _leaves(manifest, fds[name]) or [], payload)}
        for name, manifest in payload.get("against", {}).items()
    }
    return {"leaves": leaves} | ({"against": against} if against else {})


def _order(tree: Any, wanted: Any) -> list[int]:
    """The leaves of `tree` in the order of `wanted`, the same but for the order of names in dicts."""
    numbers = iter(range(tensors.MAX_LEAVES))

    def numbered(node: Any) -> Any:
        if node == "*":
            return next(numbers)
        return {k: numbered(v) for k, v in node.items()} if isinstance(node, dict) else [numbered(v) for v in node[1:]]

    def taken(node: Any, like: Any) -> list[int]:
        if like == "*":
            return [node]
        pairs = [(node[k], v) for k, v in like.items()] if isinstance(like, dict) else zip(node, like[1:], strict=True)
        return [i for pair in pairs for i in taken(*pair)]

    return taken(numbered(tree), wanted)


def _tolerance(rtol: dict[str, float], leaf: Any) -> float:
    if not isinstance(leaf, torch.Tensor):
        return 0.0
    name = tensors.dtype_name(leaf.dtype)
    return rtol.get(name, rtol["float64"] if name == "complex128" else 0.05)


def _against(candidate: list[Any], other: list[Any], payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of the floating-point results beside something else; none where the two cannot be the same."""
    pairs = [(c, o) for c, o in zip(candidate, other, strict=False) if _floating(c) and isinstance(o, torch.Tensor)]
    if any(c.shape != o.shape or c.dtype != o.dtype for c, o in pairs):
        return []
    return [compare_leaf(c, o, Baseline(o, None), _tolerance(payload["rtol"], o), 0.0) for c, o in pairs]


def _add_signal(group: str, truth: list[Any]) -> None:
    known = _signals.setdefault(group, [_Signal() for _ in truth])
    for signal, leaf in zip(known, truth, strict=False):
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            signal.add(leaf)


def nulls(payload: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
    """The trivial programs of one draw, each compared as a candidate would be: `{name: {"leaves": […]}}`.

    `inputs`, `eager`, `truth` belong to the draw; `other_input` and `other_weights` are eager's results for something else.
    """
    eager = _leaves(payload["eager"], fds["eager"]) or []
    truth = _leaves(payload.get("truth"), fds.get("truth", -1))
    inputs = [t for t in (_leaves(payload["inputs"], fds["inputs"]) or []) if isinstance(t, torch.Tensor)]
    others = {name: _leaves(payload[name], fds[name]) or [] for name in ("other_input", "other_weights") if payload.get(name)}
    programs = _trivial(eager, inputs) | {
        name.replace("_", "-"): (lambda pick, of=leaves: [pick(leaf) for leaf in of]) for name, leaves in others.items()
    }
    # Nearly every null fails at once: a sample is enough to see it, and only what survives is made and compared whole.
    thin = [_thinned(leaf) for leaf in eager], [_thinned(leaf) for leaf in truth] if truth is not None else None
    bases: dict[bool, list[Baseline | None]] = {}
    answers = {}
    for name, program in programs.items():
        for pick, (wanted, double) in ((_thinned, thin), (_whole, (eager, truth))):
            results = program(pick)
            if len(results) != len(wanted) or any(r is None and e is not None for r, e in zip(results, wanted, strict=True)):
                break
            if all(r is e for r, e in zip(results, wanted, strict=True)):
                break
            whole = pick is _whole
            if whole not in bases:
                bases[whole] = _baselines(wanted, double, payload)
            answers[name] = {"leaves": (numbers := _compare_all(results, wanted, bases[whole], payload))}
            if any(n.get("failures") or n.get("mismatches") for n in numbers):
                break
    return {"nulls": answers}


Pick = Callable[..., Any]  # of a leaf, or of one that is repeated up to so many elements: all of it, or a sample


def _trivial(eager: list[Any], inputs: list[torch.Tensor]) -> dict[str, Callable[[Pick], list[Any]]]:
    """Programs that compute nothing, by name: each gives its results, or samples of them; None for what cannot be had."""
    constants = [_constant(e) for e in eager]
    passed = [next((x for x in inputs if isinstance(e, torch.Tensor) and x.numel() == e.numel()), None) for e in eager]
    return {
        "zeros": lambda pick: [torch.zeros_like(pick(e)) if isinstance(e, torch.Tensor) else e for e in eager],
        "constant": lambda pick: [_filled(pick(e), value) for e, value in zip(eager, constants, strict=True)],
        "first-input": lambda pick: [_passed(pick, x, e) for x, e in zip(passed, eager, strict=True)],
        "half-batch": lambda pick: [_repeated(pick, e) for e in eager],
    }


def _compare_all(
    results: list[Any], eager: list[Any], bases: list[Baseline | None], payload: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        compare_leaf(r, e, base, _tolerance(payload["rtol"], e), payload["slack_ratio"])
        for r, e, base in zip(results, eager, bases, strict=True)
    ]


def _whole(leaf: Any, numel: int | None = None) -> Any:
    """A leaf as it is, or one dimension of its elements over and over, `numel` in all."""
    return leaf if numel is None else torch.cat([leaf.reshape(-1)] * (numel // leaf.numel()))


def _thinned(leaf: Any, numel: int | None = None) -> Any:
    """Of what `_whole` gives, at most about `NULL_SAMPLE` elements of each tensor, evenly spread."""
    if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0:
        return leaf
    flat, step = leaf.reshape(-1), max(1, (numel or leaf.numel()) // NULL_SAMPLE)
    return flat[::step].contiguous() if numel is None else flat[torch.arange(0, numel, step) % leaf.numel()]


def _constant(e: Any) -> float | torch.Tensor | None:
    """What a program that always gives the same number would give: the mean, or of whole numbers the first. A single number is
    its own mean: only the program that gets it without looking would be trivial."""
    if not isinstance(e, torch.Tensor) or e.numel() < 2:
        return None
    return mean(e) if e.is_floating_point() else e.reshape(-1)[0]


def _filled(e: Any, value: float | torch.Tensor | None) -> Any:
    if not isinstance(e, torch.Tensor) or e.numel() == 0:
        return e
    if isinstance(value, torch.Tensor):
        return torch.empty_like(e).copy_(value)
    return None if value is None else torch.full_like(e, value)


def _passed(pick: Pick, x: torch.Tensor | None, e: Any) -> Any:
    if not isinstance(e, torch.Tensor):
        return e
    return None if x is None else pick(x).reshape(pick(e).shape).to(e.dtype)


def _repeated(pick: Pick, e: Any) -> Any:
    if not isinstance(e, torch.Tensor):
        return e
    if e.dim() == 0 or e.shape[0] < 2 or e.shape[0] % 2:
        return None
    half = e[: e.shape[0] // 2]
    return (pick(half, e.numel()) if half.numel() else half).reshape(pick(e).shape)


def handle(kind: str, payload: dict[str, Any], fds: list[int], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """One request. `payload["fds"]` names the descriptors in order."""
    try:
        named = dict(zip(payload.get("fds", []), fds, strict=True))
        if kind in ("compare", "nulls"):
            with one_thread():
                return compare(payload, named) if kind == "compare" else nulls(payload, named)
        if kind == "signal":
            return {"signal": [signal.value() for signal in _signals.get(payload["group"], [])]}
        if kind == "ceilings":
            return ceilings.measure(payload["device"], payload["threads"], payload["beyond_cache"])
        if kind == "reset":
            _signals.clear()
            return {}
        raise ValueError(f"the judge does not answer {kind!r}")
    finally:
        for fd in fds:
            os.close(fd)
