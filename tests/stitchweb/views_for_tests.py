"""A run told in events, for page tests and screenshots: every panel filled, every kind of verdict, numbers that agree.

`story()` gives the events in order and the blobs they name. Fold any prefix of them to see the page at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.blobs import MemoryBlobs
from agents.events import Event, View
from agents.events.folding import fold_all
from gpu_runner.contracts import BlobRef
from tests.stitchweb.parts_for_tests import (
    DEVICE,
    KERNEL,
    KERNEL_2,
    LOG,
    REFERENCE,
    Teller,
    build_facts,
    candidate,
    check_rows,
    full_timing,
    profile_report,
    quick_timing,
    status_line,
)


def _live(t: Teller, cid: str, base: dict[str, Any], step: int) -> None:
    """Build, check and time a candidate, with all the progress that a watcher sees on the way."""
    t.tell("run.status", status_line("building", f"Building {cid}", step, cid))
    t.tell("candidate.changed", base | {"status": "building"}, "engineer")
    t.tell("log.lines", {"stream": "build", "text": LOG}, "runner")
    t.tell("run.status", status_line("checking", f"Checking {cid}", step + 1, cid), after=1.2)
    t.tell("candidate.changed", base | {"status": "checking", "build": build_facts(t)}, "runner")
    for row in check_rows()[:6]:
        t.tell("check.row", {"candidate": cid, "row": row}, "runner", after=0.1)


def _passed(t: Teller, base: dict[str, Any], ms: float, **more: Any) -> dict[str, Any]:
    return base | {
        "status": "done", "verdict": "verified", "labels": ["full-precision"], "build": build_facts(t),
        "check": {"passed": 13, "failed": 0, "not_run": 1, "error_ratio": 0.9, "signal_error": 2.9e-7, "coverage": 0.987},
        "rows": check_rows(), "timing": quick_timing(ms), **more,
    }  # fmt: skip


def _opening(t: Teller) -> None:
    budget = {"attempts": 12, "wall_s": 900.0, "tokens": None, "money": None, "device_s": 300.0}
    t.tell("run.created", {
        "run": "41", "name": "layernorm_gelu", "target": "cpu", "protocol": "strict/4", "mode": "eval", "precision": "as-reference",
        "engineers": {"planner": "offline", "coder": "offline", "verifier": "offline"}, "budget": budget, "source": t.put(REFERENCE),
    }, "Ada")  # fmt: skip
    t.tell(
        "run.status",
        {"status": "queued", "doing": "Queued", "waiting": "Second in line for cpu: the one runner works on run 40."},
    )
    t.tell("run.status", status_line("analysing", "Analysing the reference", 0))
    t.tell("analysis.done", {
        "blob": t.put("{}"), "entry": "Model", "inputs": ["float32 [8, 512, 1024]"], "outputs": ["float32 [8, 512, 1024]"],
        "parameters": 2048, "flops": 45_300_000, "bytes": 33_562_624, "eager_ms": 4.38, "device": DEVICE,
        "ops": [{"op": "aten.gelu", "count": 1, "time_ns": 2_410_000, "share": 0.552},
                {"op": "aten.native_layer_norm", "count": 1, "time_ns": 1_930_000, "share": 0.441}],
    }, "runner", after=3.1)  # fmt: skip
    t.tell("profile.done", {
        "role": "reference", "candidate": None, "status": "measured", "finding": "Two passes over memory.",
        "blob": t.put(profile_report("reference", {"aten::gelu": (2_410_000, "GeluKernel"), "aten::native_layer_norm": (1_930_000, "LayerNormKernelImpl")}, "Two passes over memory.")),
    }, "runner")  # fmt: skip
    t.tell("usage.changed", {"usage": {"attempts": 0, "wall_s": 5.2, "device_s": 4.0}, "budget": budget})
    t.tell("run.status", status_line("planning", "Planning", 1))
    t.tell("plan.made", {"version": 1, "approved": False, "note": "The program moves each element four times; twice would do.", "todos": [
        {"id": "t1", "kind": "fuse", "title": "Fuse LayerNorm and GELU into one pass", "ops": ["layer_norm", "gelu"], "rows": ["GeluKernel", "LayerNormKernelImpl"], "predicted": 1.6,
         "why": "Both read and write the whole tensor; fused, one read and one write are left.", "constraints": ["fp32 throughout"]},
        {"id": "t2", "kind": "memory", "title": "Two-pass variance in registers", "ops": ["layer_norm"], "predicted": 1.15},
        {"id": "t3", "kind": "host", "title": "Drop the output allocation", "ops": ["empty_like"], "predicted": 1.03},
        {"id": "t4", "kind": "algebra", "title": "Cheaper erf", "ops": ["gelu"], "predicted": 1.1, "status": "dropped", "note": "It would reduce the precision."},
    ]}, "engineer")  # fmt: skip
    t.tell("run.status", status_line("awaiting_approval", "", 2, waiting="The plan waits for approval."))


def _failures(t: Teller) -> None:
    base = candidate(t, "c1", "fused pass", parent=None, todo="t1", kernel=KERNEL.replace("const float rstd", "// rstd"))
    t.tell("candidate.changed", base, "engineer", after=2.0)
    t.tell("run.status", status_line("building", "Building c1", 4, "c1"))
    t.tell("candidate.changed", base | {
        "status": "done", "verdict": "build-failed", "sentence": "The compiler refused kernels/ln_gelu.cpp.", "build": build_facts(t, ok=False),
    }, "runner")  # fmt: skip
    t.tell(
        "decision.made",
        {"candidate": "c1", "route": "retry", "sentence": "The kernel does not compile; the error names the line."},
        "engineer",
    )
    base = candidate(
        t, "c2", "fix: declare rstd <b>", parent="c1", todo="t1", kernel=KERNEL.replace("1e-5f", "1e-2f"), skill="feedback"
    )
    t.tell("candidate.changed", base, "engineer")
    _live(t, "c2", base, 6)
    t.tell("candidate.changed", base | {
        "status": "done", "verdict": "incorrect", "sentence": "Draw 3 differs by 0.31 where 1e-4 is allowed.", "build": build_facts(t),
        "check": {"passed": 12, "failed": 1, "not_run": 1}, "rows": check_rows("draw 3"),
    }, "runner")  # fmt: skip


def story() -> tuple[list[Event], MemoryBlobs]:
    """The whole run, from upload to a confirmed candidate."""
    t = Teller()
    budget = {"attempts": 12, "wall_s": 900.0, "tokens": None, "money": None, "device_s": 300.0}
    _opening(t)
    t.tell("control.changed", {"id": "1", "kind": "approve_plan", "state": "requested", "by": "Ada"}, "Ada", after=8)
    t.tell("control.changed", {"id": "1", "kind": "approve_plan", "state": "applied", "by": "Ada"}, "system")
    t.tell("run.status", status_line("coding", "Writing a candidate for t1", 3))
    t.tell(
        "todo.changed",
        {
            "id": "t1",
            "rows": ["GeluKernel", "LayerNormKernelImpl"],
            "kind": "fuse",
            "title": "Fuse LayerNorm and GELU into one pass",
            "ops": ["layer_norm", "gelu"],
            "predicted": 1.6,
            "status": "doing",
        },
    )
    _failures(t)
    base = candidate(t, "c3", "fix: epsilon", parent="c2", todo="t1", kernel=KERNEL, skill="feedback")
    t.tell("candidate.changed", base, "engineer")
    _live(t, "c3", base, 9)
    t.tell("run.status", status_line("timing", "Timing c3", 11, "c3"))
    t.tell(
        "candidate.changed",
        base
        | {
            "status": "timing",
            "build": build_facts(t),
            "rows": check_rows(),
            "check": {"passed": 13, "failed": 0, "not_run": 1},
        },
        "runner",
    )
    t.tell("timing.round", {"candidate": "c3", "arm": "eager", "round": 3, "rounds": 6, "median_ms": 4.4}, "runner")
    profile = t.put(
        profile_report(
            "candidate",
            {"ln_gelu": (2_350_000, "ln_gelu(float const*, float*, long, long)")},
            "Memory-bound: every byte is moved once.",
            0.987,
        )
    )
    t.tell("candidate.changed", _passed(t, base, 2.41), "runner", after=3.1)
    t.tell("best.changed", {"candidate": "c3"})
    t.tell(
        "todo.changed",
        {
            "id": "t1",
            "rows": ["GeluKernel", "LayerNormKernelImpl"],
            "kind": "fuse",
            "title": "Fuse LayerNorm and GELU into one pass",
            "ops": ["layer_norm", "gelu"],
            "predicted": 1.6,
            "measured": 1.82,
            "measured_low": 1.76,
            "measured_high": 1.87,
            "status": "done",
        },
    )
    t.tell("usage.changed", {"usage": {"attempts": 3, "wall_s": 41.7, "device_s": 22.4}, "budget": budget})
    hack = candidate(t, "c4", "last output by pointer", parent="c3", todo="t3", kernel=KERNEL)
    t.tell("candidate.changed", hack, "engineer")
    t.tell(
        "candidate.changed",
        hack
        | {
            "status": "done",
            "verdict": "hack:output_cache",
            "sentence": "It returns the result of an earlier call.",
            "build": build_facts(t),
            "check": {"passed": 12, "failed": 1, "not_run": 1},
            "rows": check_rows("same buffer, new data"),
        },
        "runner",
    )
    t.tell(
        "control.changed",
        {"id": "2", "kind": "hint", "state": "requested", "by": "Ada", "text": "Rows are always a multiple of 8."},
        "Ada",
    )
    base = candidate(t, "c5", "variance in a second pass", parent="c3", todo="t2", kernel=KERNEL_2)
    t.tell("candidate.changed", base, "engineer")
    t.tell(
        "control.changed",
        {"id": "2", "kind": "hint", "state": "applied", "by": "Ada", "text": "Rows are always a multiple of 8."},
    )
    _live(t, "c5", base, 17)
    t.tell("run.status", status_line("profiling", "Profiling c5", 19, "c5"))
    t.tell("candidate.changed", _passed(t, base, 2.19) | {"status": "profiling"}, "runner")
    t.tell(
        "profile.done",
        {
            "role": "candidate",
            "candidate": "c5",
            "blob": profile,
            "status": "measured",
            "finding": "Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
            "coverage": 0.987,
        },
        "runner",
    )
    t.tell(
        "candidate.changed",
        _passed(
            t,
            base,
            2.19,
            profile=profile,
            finding="Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
        ),
        "runner",
    )
    t.tell(
        "decision.made",
        {
            "candidate": "c5",
            "route": "advance",
            "bottleneck": "memory",
            "sentence": "At 72 % of the physical floor; the next to-do moves no fewer bytes.",
            "suggestions": ["Keep the rows in registers."],
        },
        "engineer",
    )
    t.tell("best.changed", {"candidate": "c5"})
    t.tell(
        "todo.changed",
        {
            "id": "t2",
            "kind": "memory",
            "title": "Two-pass variance in registers",
            "ops": ["layer_norm"],
            "predicted": 1.15,
            "measured": 1.1,
            "measured_low": 1.07,
            "measured_high": 1.13,
            "status": "done",
        },
    )
    t.tell("control.changed", {"id": "3", "kind": "pause", "state": "requested", "by": "Ada"}, "Ada")
    t.tell("control.changed", {"id": "3", "kind": "pause", "state": "applied", "by": "Ada"})
    t.tell("run.status", status_line("paused", "", 21, waiting="Paused by Ada, before the next to-do."))
    t.tell("control.changed", {"id": "4", "kind": "resume", "state": "applied", "by": "Ada"})
    t.tell("run.status", status_line("timing", "Confirming c5 with every baseline", 22, "c5"))
    t.tell(
        "candidate.changed",
        _passed(
            t,
            base,
            2.19,
            profile=profile,
            confirmed=full_timing(2.18),
            finding="Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
        ),
        "runner",
        after=14,
    )
    t.tell("usage.changed", {"usage": {"attempts": 5, "wall_s": 88.2, "device_s": 51.0}, "budget": budget})
    t.tell("run.status", {"status": "finished", "step": 23, "stop_cause": "todos-done"})
    t.tell("run.finished", {"verdict": "verified", "stop_cause": "todos-done", "best": "c5", "speedup_vs_eager": 2.01, "speedup_vs_compile": 1.39, "sentence": "Every to-do was tried. c5 is 2.01× faster than eager and 1.39× faster than torch.compile."})  # fmt: skip
    return t.events, t.blobs


def refused_story() -> tuple[list[Event], MemoryBlobs]:
    """A run whose reference crashes."""
    t = Teller()
    t.tell(
        "run.created",
        {
            "run": "42",
            "name": "broken",
            "target": "cpu",
            "protocol": "strict/4",
            "mode": "eval",
            "precision": "as-reference",
            "engineers": {"coder": "offline"},
            "budget": {"attempts": 12},
            "source": t.put(REFERENCE),
        },
    )
    refusal = {
        "code": "crash",
        "sentence": "The forward crashes: shapes [8, 3] and [4, 2] cannot be multiplied.",
        "way_out": "Correct line 11 and upload it again.",
        "line": 11,
        "log": "Traceback (most recent call last):\n  <script>alert(1)</script>",
    }
    t.tell("analysis.done", {"blob": t.put("{}"), "refusal": refusal})
    t.tell("run.status", {"status": "finished", "stop_cause": "refused"})
    t.tell("run.finished", {"verdict": "refused", "stop_cause": "refused", "sentence": refusal["sentence"]})
    return t.events, t.blobs


def view_at(events: list[Event], until: Callable[[Event], bool] | None = None) -> View:
    """The fold of the events up to and with the first that `until` accepts, or of all."""
    chosen: list[Event] = []
    for event in events:
        chosen.append(event)
        if until and until(event):
            break
    return fold_all(View(), chosen)


class NoBlobs:
    """A store that lost everything."""

    def get(self, ref: BlobRef) -> bytes:
        raise KeyError(ref.sha256)
