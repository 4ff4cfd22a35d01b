"""What to do about a bottleneck: one sentence for people, and the same as a candidate for the plan.

Kinds are those of a plan's items. A predicted gain is the most that removing the cause can bring (Amdahl), never a promise.
"""

from __future__ import annotations

from typing import Any

ADVICE: dict[str, tuple[str, str]] = {  # id: (kind of plan item, sentence)
    "longer": ("other", "Profile at least three iterations and one millisecond, in a named range after warm-up."),
    "keep-on-device": (
        "memory",
        "Keep tensors on the device between iterations instead of copying them from the host each time.",
    ),
    "pin": ("memory", "Put the host's side into pinned memory and copy with non_blocking=True on a second stream."),
    "batch-copies": ("memory", "Gather small copies into one."),
    "prefetch-managed": ("memory", "Prefetch managed memory, or allocate it on the device."),
    "no-sync": ("host", "Leave results on the GPU: no .item(), .cpu(), print, nonzero or synchronize inside the iteration."),
    "fuse": ("fuse", "Fuse chains of small operations into one kernel each."),
    "graph": ("host", "Capture the iteration in a CUDA graph, so that one launch replays all kernels."),
    "preallocate": (
        "host",
        "Move Python work and allocations out of the forward: preallocate buffers, cache what does not change.",
    ),
    "streams": ("host", "Look at the order of streams and events: let independent work overlap."),
    "kernel-report": ("other", "Profile the largest kernels with Nsight Compute: the GPU itself is the limit."),
    "tensor-cores": ("algebra", "Use tensor cores: a matrix product at a precision and shapes that they take."),
    "lower-precision": ("algebra", "Compute at a lower precision where the tolerance allows it."),
    "fewer-instructions": (
        "algebra",
        "Execute fewer instructions: hoist, precompute, use fused multiply-add and fast intrinsics.",
    ),
    "fewer-bytes": (
        "fuse",
        "Move fewer bytes: fuse with the neighbours, use smaller types, read each value once with vector loads.",
    ),
    "tile": ("memory", "Tile for reuse, so that values come from shared memory or registers and not again from L2."),
    "coalesce": ("layout", "Coalesce global accesses: neighbouring threads read neighbouring addresses."),
    "bank-conflicts": ("memory", "Pad or swizzle shared memory: threads of a warp hit the same bank."),
    "both-units": ("algebra", "Arithmetic and memory are used evenly: only a better algorithm lowers both."),
    "more-blocks": ("reduce", "Launch more blocks: split the reduction, use smaller tiles or batch."),
    "registers": ("other", "Lower the registers per thread: launch bounds, a smaller tile, less unrolling."),
    "shared-memory": ("memory", "Use less shared memory per block: a smaller tile, or a larger carve-out."),
    "block-size": ("other", "Choose a block size that is a multiple of 32, 128 to 256 threads as a start."),
    "imbalance": ("other", "Even out the work: finer blocks, or a persistent kernel that fetches its next tile."),
    "loads-in-flight": ("memory", "Have more loads in flight: unroll, vector loads, prefetch to shared memory with cp.async."),
    "shared-access": ("memory", "Fewer and wider shared memory accesses; fewer special functions."),
    "fewer-barriers": ("other", "Fewer __syncthreads: smaller blocks, or synchronise within a warp."),
    "pipe-mix": ("algebra", "One pipe is oversubscribed: another mix of instructions, a deeper pipeline, or tensor cores."),
    "more-ilp": ("other", "Break the chain of dependent instructions: unroll, several independent accumulators."),
    "code-size": ("other", "Less divergence and smaller code: hoist branches, unroll less."),
    "fences": ("other", "Fewer memory fences; wide stores at the end; constants with one address per warp."),
    "at-roofline": ("other", "The kernel is at the roofline: leave it, and look for work that need not be done at all."),
    "parallelise": ("other", "Use all threads: a parallel for over the outer dimension, with a grain that fits the cache."),
    "vectorise": ("other", "Vectorise and block for the cache: contiguous inner loops, no strided reads."),
    "algorithm": ("algebra", "The arithmetic is the limit: fewer operations, or a library's product for the matrix part."),
    "host": ("host", "Do the sequence in one call of C++, so that the dispatcher is passed once."),
}

STALLS: dict[str, tuple[str, tuple[str, ...]]] = {  # reason: (what it waits for, advice)
    "long_scoreboard": ("loads from global, local or texture memory", ("loads-in-flight", "coalesce")),
    "short_scoreboard": ("shared memory or special functions", ("bank-conflicts", "shared-access")),
    "mio_throttle": ("shared memory or special functions", ("bank-conflicts", "shared-access")),
    "lg_throttle": ("room for more global accesses", ("loads-in-flight", "registers")),
    "tex_throttle": ("the texture unit", ("coalesce",)),
    "barrier": ("the other warps at __syncthreads", ("fewer-barriers",)),
    "math_pipe_throttle": ("a free arithmetic pipe", ("pipe-mix",)),
    "gmma": ("an asynchronous matrix operation", ("pipe-mix",)),
    "wait": ("a dependent instruction of fixed latency", ("more-ilp",)),
    "dispatch_stall": ("the dispatcher", ("more-ilp",)),
    "no_instruction": ("the instruction cache", ("code-size",)),
    "branch_resolving": ("a branch to be resolved", ("code-size",)),
    "membar": ("a memory fence", ("fences",)),
    "drain": ("stores to be written out at the end", ("fences",)),
    "imc_miss": ("constants that are not cached", ("fences",)),
    "sleeping": ("itself: it sleeps", ()),
    "misc": ("something else", ()),
}
BENIGN = {"selected", "not_selected"}


def ceiling(share_pct: float | None) -> float | None:
    """The most that the whole gains when this share of its time goes: 1 / (1 - share)."""
    if share_pct is None or not 0 <= share_pct < 99.0:
        return None
    return 1.0 / (1.0 - share_pct / 100.0)


def candidates(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plan items for a Coder, largest possible gain first: `{id, kind, title, target, why, predicted_at_most, confidence}`.

    `predicted_at_most` is a ratio over the whole forward, null where nothing was measured that could bound it.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for verdict in verdicts:
        for name in verdict["suggestions"]:
            if name not in ADVICE or name in ("longer", "at-roofline", "kernel-report"):
                continue
            kind, sentence = ADVICE[name]
            target = verdict.get("kernel") or ""
            found.setdefault(
                (name, target),
                {
                    "id": name, "kind": kind, "title": sentence, "target": target, "why": verdict["sentence"],
                    "predicted_at_most": verdict["ceiling"], "confidence": verdict["confidence"],
                },
            )  # fmt: skip
    return sorted(found.values(), key=lambda item: -(item["predicted_at_most"] or 0.0))[:20]
