"""Compares results. No user code in this process; it answers with numbers, the verdict's rules stand in the parent.

Every comparison is done in double precision, in chunks, by one thread: two that wait for each other beside anything else take
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
from .results import Baseline, compare_leaf, differing, flattened, memory_format, squares, ties

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
        found.append(Baseline.of(e, t if usable else None, unit) if _floating(e) else None)
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
            numbers["format"] = [memory_format(entry["shape"], entry["stride"]) for entry in (mine, theirs)]
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
    return [compare_leaf(c, o, Baseline.of(o, None), _tolerance(payload["rtol"], o), 0.0) for c, o in pairs]


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
    programs: dict[str, list[Any]] = {
        "zeros": [torch.zeros_like(e) if isinstance(e, torch.Tensor) else e for e in eager],
        "constant": [_mean_of(e) for e in eager],
        "first-input": [_passed_through(inputs, e) for e in eager],
        "half-batch": [_repeated(e) for e in eager],
    }
    for name in ("other_input", "other_weights"):
        if payload.get(name):
            programs[name.replace("_", "-")] = _leaves(payload[name], fds[name]) or []
    whole: list[Baseline | None] | None = None
    answers = {}
    for name, results in programs.items():
        if len(results) != len(eager) or any(r is None and e is not None for r, e in zip(results, eager, strict=True)):
            continue
        if all(r is e for r, e in zip(results, eager, strict=True)):
            continue
        # Nearly every null fails at once: a sample is enough to see it, and only what survives is compared whole.
        thin = [_thinned(leaves) for leaves in (results, eager)] + [_thinned(truth) if truth is not None else None]
        numbers = _compare_all(thin[0], thin[1], _baselines(thin[1], thin[2], payload), payload)
        if not any(n.get("failures") or n.get("mismatches") for n in numbers):
            whole = whole or _baselines(eager, truth, payload)
            numbers = _compare_all(results, eager, whole, payload)
        answers[name] = {"leaves": numbers}
    return {"nulls": answers}


def _compare_all(
    results: list[Any], eager: list[Any], bases: list[Baseline | None], payload: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        compare_leaf(r, e, base, _tolerance(payload["rtol"], e), payload["slack_ratio"])
        for r, e, base in zip(results, eager, bases, strict=True)
    ]


def _thinned(leaves: list[Any]) -> list[Any]:
    """Every tensor as at most `NULL_SAMPLE` of its elements, evenly spread."""
    return [
        leaf.reshape(-1)[:: max(1, leaf.numel() // NULL_SAMPLE)].contiguous() if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]


def _mean_of(e: Any) -> Any:
    if not isinstance(e, torch.Tensor) or e.numel() == 0:
        return e
    if e.is_floating_point():
        # A single number is its own mean: only the program that gets it without looking would be trivial.
        return None if e.numel() == 1 else torch.full_like(e, float(e.double().nan_to_num(0.0, 0.0, 0.0).mean()))
    return e.reshape(-1)[:1].expand(e.numel()).reshape(e.shape).clone() if e.numel() > 1 else None


def _passed_through(inputs: list[torch.Tensor], e: Any) -> Any:
    if not isinstance(e, torch.Tensor):
        return e
    for x in inputs:
        if x.numel() == e.numel():
            return x.reshape(e.shape).to(e.dtype)
    return None


def _repeated(e: Any) -> Any:
    if not isinstance(e, torch.Tensor):
        return e
    if e.dim() == 0 or e.shape[0] < 2 or e.shape[0] % 2:
        return None
    half = e[: e.shape[0] // 2]
    return torch.cat([half, half])


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
