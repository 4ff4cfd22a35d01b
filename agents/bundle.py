"""The take-home of a candidate: a zip with its sources, how it was measured, and a script that measures it again elsewhere."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from agents.result import device_of, line_of
from agents.state import BlobStore, Candidate, State
from agents.takehome import verify_script
from gpu_runner.contracts import ArmTiming, CandidateFiles, DeviceInfo, Interval, Speed, TimingReport, digest

SCHEMA = "stitchweb.result/1"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date a zip can hold: the same run gives the same bytes


def bundle(state: State, blobs: BlobStore, candidate_id: str) -> bytes:
    """The zip, the same bytes for the same state. KeyError when there is no such candidate or a blob is gone."""
    return zipped(members(state, blobs, candidate_id), executable=("verify.py",))


def members(state: State, blobs: BlobStore, candidate_id: str) -> dict[str, str]:
    """What is in the zip, path to text. KeyError as above."""
    candidate = state.candidate(candidate_id)
    found = {path: blobs.get(ref).decode() for path, ref in candidate.files.items()}
    facts = result_json(state, blobs, candidate_id)
    return found | {
        "reference.py": blobs.get(state.source).decode(),
        "result.json": json_text(facts),
        "README.md": readme(state, candidate),
        "verify.py": verify_script(),
    }


def json_text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def zipped(texts: Mapping[str, str], executable: Sequence[str] = ()) -> bytes:
    """A zip of these texts, sorted by path; the same bytes for the same texts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(texts):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if path in executable else 0o644) << 16
            info.create_system = 3  # Unix, whatever machine writes it
            archive.writestr(info, texts[path])
    return stream.getvalue()


def result_json(state: State, blobs: BlobStore, candidate_id: str | None = None) -> dict[str, Any]:
    """The result line and what stands behind it: protocol, seeds, versions, hardware, hashes; of the best or the one named."""
    chosen = candidate_id or state.best
    candidate = state.candidate(chosen) if chosen else None
    device = device_of(state, candidate)
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "run": state.run,
        "name": state.name,
        "entry": state.entry,
        "target": state.options.target,
        "stop_cause": state.stop_cause,
        "protocol_settings": state.options.protocol.model_dump(mode="json"),
        "engineers": {
            "planner": state.options.planner,
            "coder": state.options.coder,
            "verifier": state.options.verifier,
        },
        "models": {role: choice.model for role, choice in state.options.models.items()},
        "usage": state.usage.model_dump(mode="json"),
        "hardware": device.model_dump(mode="json") if device else None,
        "versions": _versions(device),
        "hashes": {"reference": state.source.sha256},
    }
    if candidate is not None:
        files = CandidateFiles(files={path: blobs.get(ref).decode() for path, ref in candidate.files.items()})
        report = candidate.confirmed or candidate.timing
        facts |= {
            "candidate": candidate.id,
            "candidate_verdict": candidate.verdict,
            "confirmed": candidate.confirmed is not None,
            "flags": list(files.manifest.flags),
            "seeds": [row.seed for row in (candidate.check.rows if candidate.check else ()) if row.seed is not None],
            "check": candidate.check.model_dump(mode="json") if candidate.check else None,
            "timing": report.model_dump(mode="json") if report else None,
        }
        facts["hashes"] |= {
            "candidate": candidate.sha256,
            "files": {path: digest(text.encode()) for path, text in sorted(files.files.items())},
        }
    return facts | line_of(state)


def _versions(device: DeviceInfo | None) -> dict[str, str]:
    names = ("torch", "driver", "runtime", "compiler")
    return {name: getattr(device, name) for name in names if getattr(device, name)} if device else {}


def readme(state: State, candidate: Candidate) -> str:
    """The page beside the sources: what changed, how it was measured, on what, and how to measure it again."""
    report = candidate.confirmed or candidate.timing
    protocol = state.options.protocol
    parts = [
        f"# {state.name}, optimized",
        _headline(candidate, report),
        "## What changed",
        "\n".join(_steps(state, candidate)),
        "## How it was measured",
        _measured(state, candidate, report),
        _table(report) if report and report.arms else "It was not timed.",
        _baselines(report) if report else "",
        "## On what",
        _hardware(device_of(state, candidate)),
        "## Check it yourself",
        "It needs Python 3.11 or newer, torch and a C++ compiler (for CUDA sources: nvcc and a GPU).\n\n"
        "    python verify.py\n\n"
        "compares the program with `reference.py` on fresh random inputs against double precision, times both in turns, prints "
        "the ratio with its interval, and exits with 0 when every result is right.",
        "## Use it",
        "`model_new.py` defines `ModelNew`, with the constructor, the forward and the parameter names of the reference's "
        "module, so a state dict of one loads into the other. It expects its kernels as `libkernels.so` in the same folder; "
        "`python verify.py --build` compiles them there, with the flags in `result.json`."
        if any(path.startswith("kernels/") for path in candidate.files)
        else "`model_new.py` defines `ModelNew`, with the constructor, the forward and the parameter names of the "
        "reference's module, so a state dict of one loads into the other.",
        f"Protocol `{protocol.id}`, reference `{state.source.sha256[:12]}`, candidate `{candidate.sha256[:12]}`; all settings, "
        "seeds, versions and hashes are in `result.json`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(candidate: Candidate, report: TimingReport | None) -> str:
    verdict = f"Verdict: **{candidate.verdict or 'none'}**"
    if report is None or report.over_eager is None:
        return f"{verdict}. No speed is claimed."
    if report.speed is Speed.NOT_CLAIMED:
        return f"{verdict}. {report.sentence or 'No speed is claimed.'}"
    over = report.over_eager
    text = f"{verdict}, **{over.value:.2f}×** as fast as eager PyTorch (95 % interval {over.low:.2f} to {over.high:.2f})"
    if report.over_compile is not None:
        best = report.over_compile
        text += f", {best.value:.2f}× as fast as the best `torch.compile` ({best.low:.2f} to {best.high:.2f})"
    if candidate.confirmed is None:
        text += ". The speed is from the quick timing inside the loop and was not confirmed by the full protocol"
    return text + "."


def _steps(state: State, candidate: Candidate) -> list[str]:
    """The way from the reference to this candidate, oldest first; attempts that were repaired on the way are left out."""
    chain: list[Candidate] = []
    known = {c.id: c for c in state.candidates}
    at: Candidate | None = candidate
    while at is not None:
        if at.verified or at.id == candidate.id:
            chain.append(at)
        at = known.get(at.parent or "")
    todos = {todo.id: todo for plan in state.plans for todo in plan.todos}
    lines = []
    for number, step in enumerate(reversed(chain), 1):
        why = todos[step.todo].why if step.todo in todos else ""
        lines.append(f"{number}. **{step.title}** ({step.id}). {why} {step.note}".rstrip())
    return lines


def _measured(state: State, candidate: Candidate, report: TimingReport | None) -> str:
    protocol, check = state.options.protocol, candidate.check
    passed = sum(row.passed is True for row in check.rows) if check else 0
    tolerance = ", ".join(f"{dtype} {value:g}" for dtype, value in sorted(protocol.rtol.items()))
    text = (
        f"{passed} checks passed; results are compared with the reference in double precision, relative tolerance {tolerance}. "
        f"Mode `{state.options.mode}`, precision `{state.options.precision}`. Every arm runs in a process of its own, in "
        f"turns, on inputs it has not seen; the interval is that of the median over rounds ({protocol.confidence:.0%})."
    )
    if state.options.require_own_kernels:
        text += " Own kernels were required: a program that calls libraries alone would have been rejected."
    if check and check.error_ratio is not None:
        text += f" Its error against double precision is {check.error_ratio:.2g} times eager's own."
    if report and report.noise is not None:
        text += f" Two timings of the same program differed by {report.noise:.1%}."
    return text


def _table(report: TimingReport) -> str:
    lines = ["| arm | median, ms | 95 % interval, ms | samples |", "| --- | ---: | ---: | ---: |"]
    lines += [_row(arm) for arm in report.arms]
    return "\n".join(lines)


def _row(arm: ArmTiming) -> str:
    name = {"candidate": "this program", "eager": "eager"}.get(arm.arm, f"torch.compile {arm.arm}")
    return f"| {name} | {arm.median_ms:.4g} | {arm.low_ms:.4g} to {arm.high_ms:.4g} | {arm.samples} |"


def _baselines(report: TimingReport) -> str:
    over = _interval(report.over_baseline)
    lines = [f"Against the fastest correct baseline (`{report.baseline}`) it is {report.speed}{over}."]
    lines += [f"- `{arm}` has no number: {reason}" for arm, reason in sorted(report.errors.items())]
    return "\n".join(lines)


def _interval(ratio: Interval | None) -> str:
    return f" ({ratio.value:.2f}×, {ratio.low:.2f} to {ratio.high:.2f})" if ratio else ""


def _hardware(device: DeviceInfo | None) -> str:
    if device is None:
        return "The machine is not known."
    facts = [device.name, f"{device.cores} cores" if device.cores else "", f"torch {device.torch}" if device.torch else ""]
    facts += [device.driver and f"driver {device.driver}", device.runtime and f"runtime {device.runtime}"]
    facts += [device.compiler.splitlines()[0] if device.compiler else ""]
    return ", ".join(fact for fact in facts if fact) + f" (target `{device.target}`)."
