"""A `.ncu-rep` file, read by NVIDIA's own reader where its wheel (`ncu-report`) is installed.

The reader is a library of machine code and the file is untrusted, so it runs in a process of its own with limits of memory,
time and files, and only JSON comes back.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_runner.profile.limits import UnreadableProfile
from gpu_runner.profile.names import clean
from gpu_runner.profile.ncu import MAX_LAUNCHES, MAX_RULES, LaunchReport, Rule
from gpu_runner.profile.table import base

SECONDS = 60
MEMORY = 3 << 30
MOST_OUTPUT = 64 << 20
_TYPES = {1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_SCRIPT = """
import json, sys
import ncu_report
out, most = [], int(sys.argv[2])
report = ncu_report.load_report(sys.argv[1])
for i in range(report.num_ranges()):
    part = report.range_by_idx(i)
    for j in range(part.num_actions()):
        if len(out) >= most:
            break
        action = part.action_by_idx(j)
        metrics = {}
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            value = metric.value() if metric is not None else None
            if isinstance(value, (int, float, str)):
                metrics[name] = [value if not isinstance(value, str) else value[:2000], metric.unit() or ""]
        rules = []
        for rule in action.rule_results_as_dicts():
            speed = rule.get("speedup_estimation") or {}
            message = rule.get("rule_message") or {}
            rules.append([rule.get("rule_identifier"), rule.get("section_identifier"), message.get("title"),
                          message.get("message"), int(message.get("type") or 0),
                          speed.get("speedup"), int(speed.get("type") or 0)])
        out.append([action.name(), metrics, rules])
print(json.dumps(out))
"""


def available() -> bool:
    """Whether the reader is installed."""
    return importlib.util.find_spec("ncu_report") is not None


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))  # hard: a kill without a word
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT, MOST_OUTPUT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_report(path: Path) -> list[LaunchReport]:
    """The launches of a report. Raises UnreadableProfile."""
    if not available():
        raise UnreadableProfile(
            "The file is a report in Nsight Compute's own format: export it with ncu --import FILE --csv --page raw, or"
            " install ncu-report."
        )
    command = [sys.executable, "-I", "-c", _SCRIPT, str(path.resolve()), str(MAX_LAUNCHES)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            preexec_fn=_bounded,
            env={"LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode == -signal.SIGXCPU:  # whichever of the two limits comes first
        raise UnreadableProfile(f"Reading the report took longer than {SECONDS} s.")
    if done.returncode or len(done.stdout) > MOST_OUTPUT:
        raise UnreadableProfile(
            "NVIDIA's reader could not read the report: it is damaged, or of a newer version than the reader."
        )
    try:
        return [_launch(*item) for item in json.loads(done.stdout)]
    except (ValueError, TypeError):
        raise UnreadableProfile("NVIDIA's reader gave an answer that is no table.") from None


def _launch(name: Any, metrics: dict[str, Any], rules: list[Any]) -> LaunchReport:
    launch = LaunchReport(clean(str(name)))
    for metric, (value, unit) in metrics.items():
        if isinstance(value, str):
            launch.texts[metric] = clean(value)
        elif abs(value) < float("inf"):
            launch.metrics[metric] = base(float(value), str(unit))
    for identifier, section, title, message, kind, speed, scope in rules[:MAX_RULES]:
        launch.rules.append(
            Rule(
                clean(str(identifier))[:60], clean(str(section))[:80], clean(str(message))[:600], _TYPES.get(kind, ""),
                float(speed) if isinstance(speed, int | float) else None, {1: "local", 2: "global"}.get(scope, ""),
                clean(str(title))[:120] if title else "",
            )
        )  # fmt: skip
    major, minor = (launch.metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    if major and minor:
        launch.cc = f"{major[0]:.0f}{minor[0]:.0f}"
    return launch
