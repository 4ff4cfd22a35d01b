"""The command lines of Nsight Systems and Nsight Compute, as pure functions, and what their ends mean.

One tool per process: CUPTI admits one subscriber, so neither runs around a process that uses torch.profiler itself. The child
opens the measured stretch with `torch.cuda.profiler.start()` after its warm-up and closes it again; within it, each iteration
is an NVTX range `stitchweb_iter`. Profilers give shares and causes; the times that are claimed come from runs without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

NSYS_SECONDS = 180.0
EXPORT_SECONDS = 120.0
NCU_SECONDS = 300.0
LAUNCHES = 3
SECTIONS = (
    "SpeedOfLight", "SpeedOfLight_RooflineChart", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats",
)  # fmt: skip
PACKAGES = {
    "libdw.so.1": "package libdw1",
    "libelf.so.1": "package libelf1",
}  # of the libraries that importers were seen to miss
_REGEX = re.compile(r"([\\.^$|?*+()\[\]{}/])")
_MISSING = re.compile(r"^\s*(\S+)\s*=>\s*not found", re.MULTILINE)
_HELP = re.compile(r"(?i)(try|usage:|see) .*--?h(elp)?\b")
_NO_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")


@dataclass(frozen=True)
class ToolCommand:
    """`argv` without a shell, its limit in seconds, what is added to the environment, and the file it must leave; `prints`:
    what it prints is that file."""

    argv: tuple[str, ...]
    seconds: float
    leaves: Path
    environment: tuple[tuple[str, str], ...] = ()
    prints: bool = False


@dataclass(frozen=True)
class Outcome:
    """`status` is measured or unavailable; `reason` a short word for machines, `sentence` what to do for people."""

    status: str
    reason: str = ""
    sentence: str = ""


def nsys_profile(nsys: str, out: Path, program: Sequence[str]) -> ToolCommand:
    """Record `program` into `out`.nsys-rep. Only CUDA and NVTX: operating system calls would be most of the rows.

    Older installations refuse `--discard-environment` (2025.3.1 does, and it is the one that comes with Nsight Compute); the
    sandbox's environment holds nothing to discard.
    """
    return ToolCommand(
        (
            nsys, "profile", "-o", str(out), "--force-overwrite=true", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none",
            "--cuda-graph-trace=node",  # else a CUDA graph is one row and its kernels are not seen
            "--capture-range=cudaProfilerApi",
            "--capture-range-end=stop",  # the default ends the program before it has written its result
            "--kill=none", "--wait=primary", *program,
        ),
        NSYS_SECONDS, _with(out, ".nsys-rep"),
    )  # fmt: skip


def nsys_import(importer: str, out: Path) -> ToolCommand:
    """Make a report of the raw stream that an installation without its host folder leaves."""
    report = _with(out, ".nsys-rep")
    return ToolCommand((importer, "-i", str(_with(out, ".qdstrm")), "-o", str(report)), EXPORT_SECONDS, report)


def nsys_export(nsys: str, out: Path) -> ToolCommand:
    """Export the report as SQLite."""
    base = _with(out, ".sqlite")
    argv = (nsys, "export", "--type=sqlite", "--force-overwrite=true", "-o", str(base), str(_with(out, ".nsys-rep")))
    return ToolCommand(argv, EXPORT_SECONDS, base)


def ncu_profile(ncu: str, out: Path, program: Sequence[str], kernel: str, skip: int = 0) -> ToolCommand:
    """Read the counters of `LAUNCHES` launches of one kernel (its key, without arguments) inside the measured stretch.

    Clocks are left as they are: locking them needs rights, and percentages do not depend on it. Caches too.
    """
    sections = [part for name in SECTIONS for part in ("--section", name)]
    return ToolCommand(
        (
            ncu, "-f", "-o", str(out), "--target-processes", "all", "--replay-mode", "kernel", "--graph-profiling", "node",
            "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off",
            "--kernel-name-base", "function", "--kernel-name", f"regex:^{escaped(kernel)}$",
            "--launch-skip", str(skip), "--launch-count", str(LAUNCHES), "--kill", "yes", *sections, *program,
        ),
        NCU_SECONDS, _with(out, ".ncu-rep"),
    )  # fmt: skip


def ncu_page(ncu: str, out: Path, page: str) -> ToolCommand:
    """Print a page (raw or details) of the report as CSV; standard output is the file. In the C locale and base units."""
    exact = ("--print-fp",) if page == "raw" else ()
    argv = (ncu, "--import", str(_with(out, ".ncu-rep")), "--csv", "--page", page, "--print-units", "base", *exact)
    return ToolCommand(argv, EXPORT_SECONDS, _with(out, f".{page}.csv"), (("LC_ALL", "C"),), prints=True)


def escaped(name: str) -> str:
    """A kernel's base name as a regular expression that matches it alone: template arguments differ between tools."""
    return _REGEX.sub(r"\\\1", name.rsplit("::", 1)[-1])


def _with(out: Path, suffix: str) -> Path:
    return out.with_name(out.name + suffix)


def importers(folder: Path) -> list[Path]:
    """The QdstrmImporter programs in the folders of an installation."""
    found = (path for path in folder.glob("*/QdstrmImporter") if path.is_file())
    return sorted(found)[:8]


def missing_libraries(text: str) -> list[str]:
    """The shared libraries that `ldd` or the loader says are not found."""
    return sorted(set(_MISSING.findall(text)) | set(_NO_LIBRARY.findall(text)))


def nsys_outcome(status: int, left: Iterable[str], output: str = "", importer: int | None = None) -> Outcome:
    """What a recording came to: `left` are the suffixes of the files that are there, `importer` the exit status of the importer
    beside it, None where none was tried or it did not come to an end."""
    suffixes = set(left)
    if ".nsys-rep" in suffixes:
        if status == 0:
            return Outcome("measured")
        return Outcome("unavailable", "program_failed", f"The profiled program ended with {status}{last_words(output)}.")
    if ".qdstrm" in suffixes:
        missing = missing_libraries(output)
        named = ", ".join(f"{name} ({PACKAGES[name]} in Debian and Ubuntu)" if name in PACKAGES else name for name in missing)
        if named:
            sentence = f"QdstrmImporter cannot start: {named} is missing. Install it, then profile again."
        elif importer:
            ended = f"by signal {-importer}" if importer < 0 else f"with {importer}{last_words(output)}"
            sentence = f"Nsight Systems left a raw recording (.qdstrm), and the QdstrmImporter beside it ended {ended}."
        else:
            sentence = (
                "Nsight Systems left a raw recording (.qdstrm) and no QdstrmImporter is beside it: install its host folder."
            )
        return Outcome("unavailable", "no_importer", sentence)
    if status == 0:
        return Outcome(
            "unavailable", "no_report", "Nsight Systems ended without a report: the program never opened its measured range."
        )
    return Outcome("unavailable", "failed", f"Nsight Systems ended with {status} and no report{last_words(output)}.")


_NCU_REASONS = (
    (
        "ERR_NVGPUCTRPERM",
        "no_permission",
        "Nsight Compute may not read the GPU's counters here: an administrator must allow it.",
    ),
    (
        "LibraryNotLoaded",
        "no_library",
        "Nsight Compute could not load its library: this machine offers no counters.",
    ),
    ("No kernels were profiled", "no_match", "Nsight Compute found no launch of the kernels that were named."),
    ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS", "subscribed", "Another profiler is attached to the process: one tool at a time."),
)


def ncu_outcome(status: int, left: Iterable[str], output: str = "") -> Outcome:
    """What a reading of counters came to. The exit status may be 0 although nothing was profiled, so the words go first."""
    for words, reason, sentence in _NCU_REASONS:
        if words in output:
            return Outcome("unavailable", reason, sentence)
    if ".ncu-rep" in set(left):  # --kill ends the program once the launches are read, and its status then says nothing
        return Outcome("measured")
    return Outcome("unavailable", "failed", f"Nsight Compute ended with {status} and no report{last_words(output)}.")


def last_words(output: str) -> str:
    """The last line that a tool printed, for the end of a sentence without its full stop. Where its help is, is no news."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _HELP.match(line.strip())]
    return f" ({lines[-1][:200].rstrip('.')})" if lines else ""
