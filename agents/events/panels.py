"""The whole small states that events carry: the analysis, a plan, a candidate, a profile, as their panels show them."""

from __future__ import annotations

from typing import Any

from agents.diagnosis import Diagnosis
from agents.events.shrink import Payload, bounded, cut, fits, plain, without
from agents.events.words import AnalysisView, CandidateView, ProfileView
from agents.state import AnalysisSummary, BlobStore, Candidate, Plan
from gpu_runner.contracts import Analysis, BlobRef, CheckRow, ProfileReport, TensorSpec, TimingReport, Verdict

SHOWN_OPS, SHOWN_ROWS = 12, 24


def spec_text(spec: TensorSpec | None) -> str:
    """A tensor in words: "float32 [64, 1024]"; a dash for what is no tensor."""
    return "–" if spec is None else f"{spec.dtype} [{', '.join(map(str, spec.shape))}]"


def analysis_view(summary: AnalysisSummary, blobs: BlobStore | None) -> Payload:
    """The analysis without its graph; from the summary alone where the blob is not at hand."""
    view = AnalysisView(
        blob=summary.blob,
        refusal=summary.refusal,
        flops=summary.flops,
        bytes=summary.bytes,
        eager_ms=summary.eager_ms,
        nulls=summary.nulls,
        labels=summary.labels,
    )
    if blobs is not None:
        whole = Analysis.model_validate_json(blobs.get(summary.blob))
        total = sum(op.time_ns for op in whole.ops)
        largest = sorted(whole.ops, key=lambda op: (op.time_ns, op.flops, op.bytes), reverse=True)[:SHOWN_OPS]
        ops: list[dict[str, Any]] = [
            {"op": op.op, "count": op.count, "time_ns": op.time_ns, "share": op.time_ns / total if total else None}
            for op in largest
        ]
        view = view.model_copy(
            update={
                "entry": whole.entry,
                "inputs": tuple(spec_text(spec) for spec in whole.inputs[:SHOWN_ROWS]),
                "outputs": tuple(spec_text(spec) for spec in whole.outputs[:SHOWN_ROWS]),
                "parameters": whole.parameters,
                "ops": tuple(ops),
                "deterministic": whole.deterministic,
                "warnings": whole.warnings,
                "device": whole.device.model_dump(mode="json") if whole.device else {},
            }
        )
    return bounded(plain(view))


def plan_payloads(plan: Plan) -> tuple[Payload, list[Payload]]:
    """The plan, and the todos that did not fit beside the others, each for an event of its own.

    The engineer's own data stay in the state; graph node names go first when it gets tight.
    """
    todos = [bounded(plain(todo.model_copy(update={"data": {}}))) for todo in plan.todos]
    head = plain(plan.model_copy(update={"todos": (), "note": cut(plan.note, 1000)}))
    whole = {**head, "todos": todos}
    if not fits(whole):
        todos = [without("nodes")(todo) for todo in todos]
    kept: list[Payload] = []
    for todo in todos:
        if not fits({**head, "todos": [*kept, todo]}):
            break
        kept.append(todo)
    return {**head, "todos": kept}, todos[len(kept) :]


def timing_payload(report: TimingReport) -> Payload:
    """A timing report; the rounds behind the medians go first when it gets tight."""
    return bounded(plain(report), without("facts"), without("arms", "rounds"))


def verdict_text(candidate: Candidate) -> str | None:
    """ "verified", "hack:output_cache", …; None while there is none."""
    if candidate.verdict is Verdict.HACK:
        return f"hack:{candidate.hack}" if candidate.hack else "hack:other"
    return candidate.verdict


def candidate_payload(candidate: Candidate) -> tuple[Payload, bool]:
    """The candidate as its panels show it, and whether its check rows are in it (else they travel one by one, before it)."""
    build, check = candidate.build, candidate.check
    rows = check.rows if check else ()
    view = CandidateView(
        id=candidate.id,
        parent=candidate.parent,
        todo=candidate.todo,
        title=candidate.title,
        round=candidate.round,
        author=candidate.author,
        skill=candidate.skill,
        files=candidate.files,
        status=candidate.status,
        verdict=verdict_text(candidate),
        sentence=cut(check.sentence, 600) if check else "",
        labels=candidate.labels,
        build={
            "ok": build.ok,
            "seconds": build.seconds,
            "cached": build.cached,
            "size": build.size,
            "diagnostics": [cut(line, 300) for line in build.diagnostics[:8]],
            "log": _ref(candidate.logs.get("build")),
        }
        if build
        else None,
        check={
            "passed": sum(row.passed is True for row in rows),
            "failed": sum(row.passed is False for row in rows),
            "not_run": sum(row.not_run for row in rows),
            "error_ratio": check.error_ratio,
            "signal_error": check.signal_error,
            "coverage": check.coverage,
            "hack": check.hack,
            "suspects": list(check.suspects),
            "log": _ref(candidate.logs.get("check")),
        }
        if check
        else None,
        rows=rows,
        timing=candidate.timing,
        confirmed=candidate.confirmed,
        profile=candidate.profile,
        finding=cut(candidate.finding, 600),
        note=cut(candidate.note, 600),
    )
    payload = plain(view)
    if fits(payload):
        return payload, True
    payload = bounded(
        payload,
        without("rows"),
        without("timing", "facts"),
        without("confirmed", "facts"),
        without("timing", "arms", "rounds"),
        without("confirmed", "arms", "rounds"),
        without("build", "diagnostics"),
    )
    return payload, False


def rows_apart(candidate: Candidate) -> list[Payload]:
    """The check rows of a candidate, each as its own payload."""
    rows: tuple[CheckRow, ...] = candidate.check.rows if candidate.check else ()
    return [bounded(plain(row)) for row in rows]


def profile_view(
    candidate: str | None, ref: BlobRef, finding: str, found: Diagnosis | None, blobs: BlobStore | None
) -> Payload:
    """What a profile says in short; the whole is the blob."""
    found = found or Diagnosis()
    view = ProfileView(
        role="candidate" if candidate else "reference",
        candidate=candidate,
        blob=ref,
        status="measured",
        finding=finding,
        klass=found.klass,
        confidence=found.confidence,
        reached=found.reached,
    )
    if blobs is not None:
        report = ProfileReport.model_validate_json(blobs.get(ref))
        update = {
            "status": report.status,
            "reason": report.reason,
            "finding": report.finding,
            "coverage": report.coverage,
            "collectors": tuple((report.summary or {}).get("collectors") or ())[:8],
            "cached": report.cached,
        }
        view = view.model_copy(update=update)
    return bounded(plain(view))


def _ref(ref: BlobRef | None) -> dict[str, Any] | None:
    return ref.model_dump(mode="json") if ref else None
