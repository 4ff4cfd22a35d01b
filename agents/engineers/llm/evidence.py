"""What a model is told: the program, what is known of it, what was tried and how it went, each as a part of a question."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agents.diagnosis import Diagnosis
from agents.engineers import Context
from agents.engineers.llm.prompts import Part
from agents.loop.memory import failures
from agents.loop.profiles import standing
from agents.state import Candidate, Todo
from gpu_runner.contracts import CheckReport, TensorSpec, TimingReport

MOST_OPS, MOST_ROWS, MOST_TRIED, MOST_LINES = 12, 10, 12, 40
_TELLING = re.compile(r"\b(error|warning|undefined|Error|Exception|Traceback|assert|expected|got)\b")


def program(context: Context) -> list[Part]:
    """The reference and what the analysis measured of it."""
    return [
        Part("The reference program", context.source, data=True),
        Part("What is known of it", _analysis(context)),
        Part("What the machine is", _machine(context)),
    ]


def profile(context: Context) -> list[Part]:
    """What bounds the program that the next candidate stands on."""
    found = standing(context.state)
    name = context.state.best or "the reference"
    return [Part(f"Profile of {name}", diagnosis(found), data=True, weight=3)] if found else []


def tried(context: Context, without: str = "") -> list[Part]:
    """Earlier candidates in short, the newest last; and what failed besides, so that it is not paid for twice."""
    lines = [
        _one_line(candidate)
        for candidate in context.state.candidates[-MOST_TRIED:]
        if candidate.id != without and candidate.status == "done"
    ]
    parts = [Part("Tried before", "\n".join(lines), data=True, weight=2)] if lines else []
    recent = {without, *(candidate.id for candidate in context.state.candidates[-MOST_TRIED:])}
    if failed := failures(context.state, recent):
        parts.append(Part("What failed so far, not to be written again", "\n".join(failed), data=True, weight=3))
    return parts


def hints(context: Context) -> list[Part]:
    """What the people who watch the run wrote to the engineers."""
    return [Part("Hints of the run's owner", "\n".join(context.state.hints[-6:]), data=True, weight=5)]


def item(todo: Todo) -> Part:
    """The item of the plan that is to be done."""
    lines = [todo.title, todo.why, *(f"constraint: {c}" for c in todo.constraints)]
    if todo.ops:
        lines.append(f"operations: {', '.join(todo.ops)}")
    if todo.rows:
        lines.append(f"rows of the profile: {', '.join(todo.rows)}")
    if todo.note:
        lines.append(f"so far: {todo.note}")
    return Part("The item to do", "\n".join(line for line in lines if line), data=True)


def sources(context: Context, candidate: Candidate, title: str) -> list[Part]:
    """The files of a candidate."""
    return [Part(f"{title}: {path}", text, data=True) for path, text in context.files(candidate).items()]


def outcome(context: Context, candidate: Candidate) -> list[Part]:
    """All that was measured of one candidate, and what the Verifier said of it."""
    facts = [f"{candidate.id}, “{candidate.title}”: {candidate.verdict or 'no verdict'}. {candidate.note}"]
    parts = []
    if candidate.build is not None and not candidate.build.ok:
        parts.append(Part("The first errors of the build", "\n".join(candidate.build.diagnostics[:MOST_LINES]), data=True))
        parts.append(Part("From the build's log", telling_lines(_log(context, candidate, "build")), data=True, weight=4))
    if candidate.check is not None and not candidate.verified:
        parts.append(Part("The check", check(candidate.check), data=True))
        parts.append(Part("From the check's log", telling_lines(_log(context, candidate, "check")), data=True, weight=4))
    if candidate.timing is not None:
        facts.append(timing(candidate.timing))
    if candidate.diagnosis is not None:
        parts.append(Part(f"Profile of {candidate.id}", diagnosis(candidate.diagnosis), data=True, weight=5))
    decision = next((d for d in reversed(context.state.decisions) if d.candidate == candidate.id), None)
    if decision is not None:
        said = [f"{decision.bottleneck}: {decision.sentence}", *decision.suggestions]
        parts.append(Part("What the Verifier says", "\n".join(said), data=True))
    return [Part("How it went", "\n".join(facts), data=True), *parts]


def telling_lines(log: str) -> str:
    """Of a long log the lines that say what is wrong, each with the one after it, and the end."""
    lines = log.splitlines()
    if len(lines) <= MOST_LINES:
        return log[-8000:]
    told = {i + more for i, line in enumerate(lines) if _TELLING.search(line[:400]) for more in (0, 1)}
    chosen = sorted(i for i in told if i < len(lines) - 8)[: MOST_LINES - 8]
    return "\n".join(lines[i][:400] for i in [*chosen, *range(len(lines) - 8, len(lines))])


def diagnosis(found: Diagnosis) -> str:
    """A profile's word, its largest rows and its advice."""
    lines = [f"{found.klass} ({found.confidence} confidence): {found.sentence}" if found.tells else found.sentence]
    if found.reached is not None:
        lines.append(f"{found.reached:.0%} of its time is the least that its {found.bound} needs on this device.")
    lines += [f"{row.share:6.1%}  {row.key}" for row in found.rows[:MOST_ROWS]]
    return "\n".join([*lines, *found.suggestions])


def _analysis(context: Context) -> str:
    analysis, options = context.analysis, context.state.options
    ops = sorted(analysis.ops, key=lambda op: -op.time_ns)[:MOST_OPS]
    whole = sum(op.time_ns for op in analysis.ops) or 1
    lines = [
        f"entry class: {analysis.entry}; mode: {options.mode}; precision: {options.precision}",
        f"arguments of forward: {_specs(analysis.inputs)}",
        f"results: {_specs(analysis.outputs)}",
        f"{analysis.parameters} parameters ({analysis.parameter_bytes} bytes), {analysis.buffers} buffers",
        f"one forward: {analysis.flops} FLOPs, at least {analysis.bytes} bytes"
        + (f", {analysis.eager_ms:.4g} ms in eager PyTorch" if analysis.eager_ms else ""),
        *(f"{op.time_ns / whole:6.1%}  {op.count} × {op.op}" for op in ops),
    ]
    if options.require_own_kernels:
        lines.append("A program that calls libraries alone is rejected: it needs kernels of its own.")
    return "\n".join(lines)


def _machine(context: Context) -> str:
    device = context.analysis.device
    if device is None:
        return f"target {context.state.options.target}"
    rates = [
        f"{value / 1e9:.4g} {unit}"
        for value, unit in ((device.bandwidth_bps, "GB/s of memory"), (device.peak_flops, "GFLOP/s in float32"))
        if value
    ]
    cores = f", {device.cores} cores" if device.cores else ""
    return f"target {context.state.options.target}: {device.name}{cores}; measured: {', '.join(rates) or 'nothing'}"


def _specs(specs: Iterable[TensorSpec | None]) -> str:
    return ", ".join(f"{spec.dtype}{list(spec.shape)}" if spec else "no tensor" for spec in specs)


def _one_line(candidate: Candidate) -> str:
    speed = f", {candidate.speedup:.2f}× over eager" if candidate.speedup else ""
    base = f"on {candidate.parent}" if candidate.parent else "on the reference"
    return f"{candidate.id} ({base}) “{candidate.title}”: {candidate.verdict or 'no verdict'}{speed}. {candidate.note[:200]}"


def check(report: CheckReport) -> str:
    """A check: its sentence and the rows that failed."""
    failing = [row for row in report.rows if row.passed is False][:8]
    lines = [report.sentence]
    lines += [f"{row.group} / {row.name}: {row.value}, allowed {row.limit}. {row.note}".strip() for row in failing]
    passed = sum(row.passed is True for row in report.rows)
    return "\n".join([*lines, f"{passed} other rows passed."])


def timing(report: TimingReport) -> str:
    """A timing: each arm, and the ratio over eager with its interval."""
    arms = ", ".join(f"{arm.arm} {arm.median_ms:.4g} ms" for arm in report.arms)
    over = report.over_eager
    ratio = f"; {over.value:.3f}× over eager (95 % interval {over.low:.3f} to {over.high:.3f})" if over else ""
    return f"timing: {arms}{ratio}. {report.sentence}".strip()


def _log(context: Context, candidate: Candidate, name: str) -> str:
    ref = candidate.logs.get(name)
    return context.blobs.get(ref).decode(errors="replace") if ref else ""
