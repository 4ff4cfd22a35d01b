"""One file or several of one program become a ProfileSummary v1 with its verdicts. What a file is, is told by its content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_runner.profile import counters, kineto, ncu, ncu_report, nsys, nsys_stats
from gpu_runner.profile.advice import candidates
from gpu_runner.profile.cpu import summarise_host
from gpu_runner.profile.estimates import Work
from gpu_runner.profile.host_verdicts import host_verdicts
from gpu_runner.profile.jsonstream import GZIP
from gpu_runner.profile.kernel_verdicts import kernel_verdict
from gpu_runner.profile.limits import LIMITS, Limits, Meter, UnreadableProfile
from gpu_runner.profile.rows import ITERATION, Row
from gpu_runner.profile.system import SCHEMA, summarise_gpu
from gpu_runner.profile.trace import Trace
from gpu_runner.profile.verdicts import gpu_verdicts

_CAST = re.compile(r"\((?:bool|int|unsigned|long|short|char|unsigned (?:int|long|char|short)|long long)\)(?=-?\d)")
_SUFFIXED = re.compile(r"(?<![\w.])(\d+)[uUlL]{1,3}\b")
_LAMBDA = re.compile(r"[\[{]lambda\([^()]*\)(?:\(instance|#)(\d+)\)?[\]}]")
_SPACE_NAMES = re.compile(r"(?:\w+|\(anonymous namespace\)|<unnamed>)::")
_REFUSED = {
    b"PK\x03\x04": "The file is a zip archive: unpack it and give the report inside.",
    b"\x7fELF": "The file is a program, not a report.",
    b"%PDF": "The file is a PDF, not a report.",
}


def read_profile(
    paths: Sequence[Path], *, role: str = "reference", range_name: str = "", warmup: int = 0, limits: Limits = LIMITS
) -> dict[str, Any]:
    """The summary of one system-level report (nsys SQLite or statistics, or a trace) and any pages of counters. Raises
    UnreadableProfile."""
    meters = {path: Meter(limits) for path in paths}
    system: Trace | dict[str, Any] | None = None
    pages = []
    for path in paths:
        kind = sniff(path, limits)
        if kind == "ncu":
            pages.append(ncu.read_ncu(path, meters[path]))
            continue
        if kind == "ncu-rep":
            pages.append(ncu_report.read_report(path))
            continue
        if system is not None:
            raise UnreadableProfile(
                "Two of the files are reports of a whole program: give one of them, and pages of counters beside it."
            )
        if kind == "nsys":
            system = nsys.read_nsys(path, meters[path], range_name, warmup)
        elif kind == "nsys-stats":
            system = nsys_stats.read_stats(path, meters[path])
        else:
            system = kineto.read_kineto(path, meters[path], range_name, warmup)
    found = counters.counters(ncu.merge(iter(pages))) if pages else {}
    if isinstance(system, Trace):
        summary = summarise_gpu(system, role=role) if _has_gpu(system) else _host_only(system, role)
    else:
        summary = system or _counters_only(found, role)
    summary["target"]["role"] = role
    return finished(attach(summary, found) if system is not None and found else summary)


def sniff(path: Path, limits: Limits = LIMITS) -> str:
    """nsys | kineto | ncu | nsys-stats | ncu-rep. Raises UnreadableProfile for anything else."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(64 << 10)
    except OSError as error:
        raise UnreadableProfile(f"The file cannot be opened: {error.strerror or 'unknown error'}.") from None
    if not head:
        raise UnreadableProfile("The file is empty.")
    if size > limits.file_bytes:
        raise UnreadableProfile(f"The file is larger than {limits.file_bytes >> 30} GB, which is more than is read.")
    if head.startswith(nsys.MAGIC):
        return "nsys"
    if head[:2] == GZIP:
        return "kineto"
    if head[:4] == b"NVR\0" or path.suffix == ".ncu-rep":
        return "ncu-rep"
    if path.suffix in (".nsys-rep", ".qdrep"):
        raise UnreadableProfile("The file is a report in Nsight Systems' own format: export it with nsys export --type=sqlite.")
    if path.suffix == ".qdstrm":
        raise UnreadableProfile(
            "The file is an unfinished recording of Nsight Systems (.qdstrm): QdstrmImporter of the same version makes a report"
            " of it."
        )
    for magic, sentence in _REFUSED.items():
        if head.startswith(magic):
            raise UnreadableProfile(sentence)
    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = head.decode("utf-16" if wide else "utf-8-sig", "replace")
    if "\0" in text:
        raise UnreadableProfile("The file is binary and of no format that is read: SQLite, JSON, gzipped JSON or CSV.")
    if text.lstrip()[:1] in ("{", "["):
        return "kineto"
    if re.search(r"^Time ?\(%\),", text, re.MULTILINE):
        return "nsys-stats"
    return "ncu"  # whose reader says what is missing


def _has_gpu(trace: Trace) -> bool:
    return bool(trace.gpu or trace.missing)


def _host_only(trace: Trace, role: str) -> dict[str, Any]:
    """A trace of a processor: its iterations, or where none are named, everything from first to last as one."""
    rows = [row for row in trace.host if not row.name.startswith("ProfilerStep#") and row.name != ITERATION]
    ranges = trace.ranges
    if not ranges and rows:
        ranges = [(min(row.start for row in rows), max(row.end for row in rows))]
    threads: dict[str, int] = {}
    for row in rows:
        threads[row.thread] = threads.get(row.thread, 0) + row.duration
    main = max(threads, key=lambda t: threads[t], default="")
    inside = [Row("user_annotation", ITERATION, start, end - start, main) for start, end in ranges]
    at = 0
    for row in sorted((r for r in rows if r.thread == main), key=lambda r: r.start):
        while at < len(ranges) and ranges[at][1] <= row.start:
            at += 1
        if at < len(ranges) and ranges[at][0] <= row.start and row.end <= ranges[at][1]:
            inside.append(row)  # what encloses an iteration, as functions of Python do, is no part of it
    summary, _ = summarise_host(role, {"torch": ""}, inside, None, "", Work())
    summary["window"]["basis"] = trace.basis
    summary["source"]["warnings"] = trace.warnings[:20]
    if trace.basis == "first_to_last":
        summary["source"]["warnings"].append("no measured range: the whole trace counts as one iteration")
    return summary


def _counters_only(found: dict[str, dict[str, Any]], role: str) -> dict[str, Any]:
    rows = counters.kernels(found)
    measured = {"status": "measured", "reason": ""}
    none = {"status": "unavailable", "reason": "a report of Nsight Compute holds single launches, no program"}
    first = next(iter(found.values()), {})
    return {
        "schema": SCHEMA,
        "source": {
            "tool": "ncu", "tool_version": "", "format_version": "", "status": "measured", "reason": "", "warnings": [],
            "events_lost": False,
        },
        "target": {"role": role, "program_sha256": "", "iterations": None},
        "device": {
            "kind": "gpu", "name": "", "cc": first.get("cc"), "sm_count": first.get("sm_count"),
            "mem_bandwidth_Bps": first.get("dram_peak_Bps"), "peak_flops": {},
            "peaks_from": "report" if first.get("dram_peak_Bps") else None, "driver": "", "runtime": "",
        },
        "window": {"start_ns": 0, "end_ns": 0, "wall_ns": 0, "basis": "launches"},
        "gpu": None, "cpu": None, "copies": [], "api": [], "kernels": rows, "ops": [], "tree": None, "timeline": None,
        "figures": {"gpu": none, "kernels": measured, "counters": measured, "cpu": none, "ops": none},
    }  # fmt: skip


def signature(name: str) -> str:
    """A kernel's name without what tools write differently: namespaces, casts and suffixes of template arguments, what a lambda
    takes, spaces, and the parameters, which Nsight Systems and Nsight Compute name by their templates' letters (`T2`)."""
    plain = re.sub(r"\s+", "", _CAST.sub("", _SPACE_NAMES.sub("", name)))
    plain = _LAMBDA.sub(r"lambda#\1", _SUFFIXED.sub(r"\1", plain))
    return plain[: _parameters(plain)]


def _parameters(name: str) -> int:
    """Where the last pair of brackets begins, if the name ends with it."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return at if name[at] == "(" and at else len(name)
    return len(name)


def attach(summary: dict[str, Any], found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Counters of kernels put beside the kernels' times."""
    by_signature = {signature(name): values for name, values in found.items()}
    matched = 0
    for kernel in summary["kernels"]:
        values = by_signature.get(signature(kernel["name"]))
        if values is not None:
            kernel["counters"] = values
            matched += 1
    unmatched = len(found) - matched
    if unmatched:
        summary["source"]["warnings"].append(f"{unmatched} kernels of the counters' report are not in the program's")
    summary["figures"]["counters"] = (
        {"status": "measured", "reason": ""}
        if matched
        else {"status": "unavailable", "reason": "the report of Nsight Compute is of other kernels"}
    )
    return summary


def finished(summary: dict[str, Any], coverage: float | None = None) -> dict[str, Any]:
    """The summary with `verdicts` (system level, then kernels by share), the first as `verdict`, and plan candidates."""
    if summary["gpu"] is not None:
        verdicts = gpu_verdicts(summary)
    elif summary["cpu"] is not None:
        verdicts = host_verdicts(summary, coverage)
    else:
        verdicts = []
    on_gpu = summary["device"]["kind"] == "gpu"
    for kernel in summary["kernels"]:
        kernel["verdict"] = kernel_verdict(kernel, kernel["share_pct"]) if on_gpu else None
        if kernel["verdict"] is not None:
            verdicts.append(kernel["verdict"])
    summary["verdicts"] = verdicts
    summary["verdict"] = verdicts[0] if verdicts else None
    summary["advice"] = candidates(verdicts)
    return summary
