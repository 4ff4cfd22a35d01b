"""The Verifier's word on one candidate: the bottleneck with its evidence, and the route."""

from __future__ import annotations

from agents.engineers import Context
from agents.state import Candidate, Decision, Todo
from gpu_runner.contracts import Verdict

WELL_PREDICTED = 0.3  # relative difference between prediction and measurement that needs no explanation


def decide(context: Context, candidate: Candidate) -> Decision:
    """Go on after what is verified; repair once what did not build or is wrong, with a smaller step; never twice the same."""
    todo = _todo(context, candidate)
    if not candidate.verified:
        return _failed(context, candidate)
    evidence = _evidence(context, candidate, todo)
    told = candidate.diagnosis is None or candidate.diagnosis.tells
    bottleneck = (candidate.finding if told else "") or _bottleneck(context, candidate)
    return Decision(
        candidate=candidate.id,
        route="advance",
        bottleneck=bottleneck,
        evidence=evidence,
        suggestions=candidate.diagnosis.suggestions if candidate.diagnosis else (),
        sentence=_sentence(candidate, todo),
    )


def _todo(context: Context, candidate: Candidate) -> Todo | None:
    for plan in reversed(context.state.plans):
        for todo in plan.todos:
            if todo.id == candidate.todo:
                return todo
    return None


def _failed(context: Context, candidate: Candidate) -> Decision:
    evidence: tuple[str, ...] = ()
    if candidate.verdict is Verdict.BUILD_FAILED and candidate.build:
        evidence = candidate.build.diagnostics[:3]
    elif candidate.check:
        evidence = tuple(f"{row.name}: {row.value} against {row.limit}" for row in candidate.check.rows if row.passed is False)[
            :4
        ]
    attempts = [c for c in context.state.candidates if c.todo == candidate.todo and not c.verified]
    again = len(attempts) < 2
    sentence = f"“{candidate.title}” is {candidate.verdict.value if candidate.verdict else 'not verified'}"
    if candidate.author == "person":
        again, end = False, "; it was written by hand, so the plan goes on."
    else:
        end = "; the smaller half of it is tried alone." if again else "; this item is given up."
    return Decision(
        candidate=candidate.id,
        route="retry" if again else "advance",
        bottleneck="correctness",
        evidence=evidence,
        sentence=f"{sentence}{end}",
    )


def _bottleneck(context: Context, candidate: Candidate) -> str:
    """Memory or arithmetic, from the least bytes and FLOPs that the program needs and the time it took."""
    analysis, timing = context.analysis, candidate.timing
    device = analysis.device
    own = next((arm.median_ms for arm in timing.arms if arm.arm == "candidate"), None) if timing else None
    if own is None or device is None or not device.bandwidth_bps or not device.peak_flops:
        return ""
    memory_ms = 1e3 * analysis.bytes / device.bandwidth_bps
    compute_ms = 1e3 * analysis.flops / device.peak_flops
    if max(memory_ms, compute_ms) < 0.2 * own:
        return "overhead: neither memory nor arithmetic explains the time"
    return "memory" if memory_ms > compute_ms else "arithmetic"


def _evidence(context: Context, candidate: Candidate, todo: Todo | None) -> tuple[str, ...]:
    lines = []
    timing = candidate.timing
    if timing and timing.over_eager:
        over = timing.over_eager
        lines.append(f"{over.value:.2f}× over eager (interval {over.low:.2f} to {over.high:.2f})")
    if (found := candidate.diagnosis) is not None and found.reached is not None:
        lines.append(f"{found.reached:.0%} of its time is the least that its {found.bound} needs on this device")
    if candidate.check and candidate.check.error_ratio is not None:
        lines.append(f"error against float64 is {candidate.check.error_ratio:.2f} of eager's own")
    if todo and todo.predicted and todo.measured:
        off = todo.measured / todo.predicted - 1
        if abs(off) > WELL_PREDICTED:
            lines.append(f"predicted {todo.predicted:.2f}×, measured {todo.measured:.2f}×: {_why_off(off)}")
    if timing and (own := next((a.median_ms for a in timing.arms if a.arm == "candidate"), None)) and context.analysis.device:
        rate = context.analysis.bytes / (own * 1e-3)
        if context.analysis.device.bandwidth_bps:
            share = rate / context.analysis.device.bandwidth_bps
            lines.append(f"moves its least bytes at {100 * share:.0f} % of this machine's bandwidth")
    return tuple(lines)


def _why_off(off: float) -> str:
    if off > 0:
        return "eager wrote and re-read more intermediates than the operation times showed"
    return "PyTorch's own kernels here were nearer the ceiling than estimated, or the tensors already stay in cache"


def _sentence(candidate: Candidate, todo: Todo | None) -> str:
    note = candidate.note or "Verified."
    return f"{todo.title}: {note}" if todo else note
