"""`torch.profiler`'s chrome trace, of every generation since 2021, becomes a Trace.

What differs between them: `ts` in whole or decimal microseconds, from the epoch or from `baseTimeNanoseconds`; categories in
capitals; a bare array of events; `hip` names; correlation ids that old traces repeat as "External id", so nothing is joined
on that.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpu_runner.profile import ranges
from gpu_runner.profile.jsonstream import Stream
from gpu_runner.profile.limits import Meter, UnreadableProfile
from gpu_runner.profile.names import clean
from gpu_runner.profile.rows import Row
from gpu_runner.profile.trace import Call, GpuRow, Launch, Trace

_GPU = {
    "kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "copy", "Memcpy": "copy", "gpu_memset": "memset", "Memset": "memset",
}  # fmt: skip
_CALLS = {"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "Runtime", "Driver"}
_HOST = {
    "cpu_op": "cpu_op", "Operator": "cpu_op", "user_annotation": "user_annotation", "python_function": "python_function",
}  # fmt: skip
_COPY = re.compile(r"(Host|Device|Peer|[HDP])(?:\w*?)[tT]o(Host|Device|Peer|[HDP])", re.ASCII)
_MOST_US = 4e15  # microseconds since the epoch in the year 2096
_LAUNCHES = ("LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch")


def read_kineto(path: Path, meter: Meter, range_name: str = "", warmup: int = 0) -> Trace:
    """Read a trace file (`.json`, `.json.gz`). Raises UnreadableProfile."""
    stream = Stream(path, meter)
    reader = _Reader(meter)
    first = stream.peek()
    if first == "[":
        for event in stream.items():
            reader.event(event)
    elif first == "{":
        found = False
        for name in stream.members():
            if name == "traceEvents" and stream.peek() == "[":
                found = True
                for event in stream.items():
                    reader.event(event)
            else:
                reader.about(name, stream.value())
        if not found:
            raise UnreadableProfile(
                "The JSON file holds no traceEvents: it is not a trace of torch.profiler (export_chrome_trace writes one)."
            )
    else:
        raise UnreadableProfile("The file is not a JSON trace: it starts with neither { nor [.")
    stream.end()
    return reader.trace(range_name, warmup)


def read_events(events: Any, devices: dict[int, dict[str, Any]], meter: Meter) -> Trace:
    """The trace of events that a sandboxed process sent: they claim no more than a file does. Raises UnreadableProfile."""
    reader = _Reader(meter)
    for event in events if isinstance(events, list) else ():
        meter.event()
        reader.event(event)
    trace = reader.trace("", 0)
    trace.devices = devices
    return trace


class _Reader:
    """Takes the events one by one and keeps what is asked later."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._trace = Trace(tool="torch_profiler")
        self._threads: dict[tuple[Any, Any], str] = {}
        self._bad = 0
        self._metric_mode = False
        self._complete = 0

    def about(self, name: str, value: Any) -> None:
        """A member beside the events. Hosts, paths and process lists are left where they are."""
        if name == "schemaVersion" and isinstance(value, int):
            self._trace.format_version = str(value)[:10]
        elif name == "deviceProperties" and isinstance(value, list):
            for number, item in enumerate(value[:64]):
                if isinstance(item, dict):
                    self._trace.devices[_integer(item.get("id"), number) or 0] = _device(item)

    def event(self, event: Any) -> None:
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        self._complete += 1
        category = event.get("cat")
        if not isinstance(category, str):
            return
        if category == "cuda_profiler_range":
            self._metric_mode = True
            return
        gpu, host = _GPU.get(category), _HOST.get(category)
        if gpu is None and host is None and category not in _CALLS:
            return
        start, duration = _ns(event.get("ts")), _ns(event.get("dur"))
        if start is None or duration is None or duration < 0:
            self._bad += 1
            return
        self._meter.row()
        name = event.get("name")
        name = clean(name) if isinstance(name, str) else "unnamed"
        if host is not None:
            self._trace.host.append(Row(host, name, start, duration, self._thread(event)))
            return
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        key = _integer(args.get("correlation"))
        key = key if key else None
        if gpu is None:
            self._trace.calls.append(Call(name, start, start + duration, self._thread(event), key))
            return
        row = GpuRow(gpu, name, start, start + duration, _integer(args.get("device"), _integer(event.get("pid"), 0)) or 0)
        row.stream = _integer(args.get("stream"), _integer(event.get("tid"), 0)) or 0
        row.key, row.bytes = key, _integer(args.get("bytes"))
        if gpu == "kernel":
            row.launch = _launch(args)
        elif gpu == "copy":
            row.copy, row.pageable = _copy(name)
        self._trace.gpu.append(row)

    def _thread(self, event: dict[str, Any]) -> str:
        pair = (event.get("pid"), event.get("tid"))
        try:
            known = self._threads.get(pair)
        except TypeError:  # a list or an object for a thread
            return "?"
        if known is None:
            known = self._threads[pair] = str(len(self._threads)) if len(self._threads) < 10_000 else "?"
        return known

    def trace(self, range_name: str, warmup: int) -> Trace:
        trace = self._trace
        if not self._complete:
            raise UnreadableProfile("The JSON file holds no complete events (ph X): it is not a trace of torch.profiler.")
        if not (trace.gpu or trace.calls or trace.host):
            raise UnreadableProfile(
                "No event of the file is of a kind that torch.profiler writes: it is a trace of another tool, or an empty one."
            )
        if self._bad:
            trace.warnings.append(f"{self._bad:,} events without a usable time were left out")
        if not any(row.kind == "kernel" for row in trace.gpu):
            if self._metric_mode:
                trace.missing = "the trace was taken in metric mode, which records ranges and no kernels"
            elif any(part in call.name for call in trace.calls for part in _LAUNCHES):
                trace.missing = "the trace holds launches but no kernels: the profiler lost the GPU's events"
        trace.ranges, trace.basis = ranges.choose(trace.host, range_name, warmup)
        return trace


def _ns(value: Any) -> int | None:
    """Microseconds as nanoseconds; None for what is no time."""
    if type(value) not in (int, float, Decimal) or not -_MOST_US < value < _MOST_US:
        return None
    whole: int = round(value * 1000)
    return whole


def _integer(value: Any, default: int | None = None) -> int | None:
    """A whole number of a sane size. Some generations write them as text."""
    whole: int | None = None
    if isinstance(value, str):
        whole = int(value) if len(value) < 20 and value.isdecimal() and value.isascii() else None
    elif isinstance(value, float | Decimal):
        whole = int(value) if -1e15 < value < 1e15 else None
    elif isinstance(value, int) and not isinstance(value, bool):
        whole = value
    return whole if whole is not None and -(1 << 62) < whole < 1 << 62 else default


def _device(item: dict[str, Any]) -> dict[str, Any]:
    major, minor = _integer(item.get("computeMajor")), _integer(item.get("computeMinor"))
    name = item.get("name")
    return {
        "name": clean(name)[:100] if isinstance(name, str) else "",
        "cc": f"{major}{minor}" if major is not None and minor is not None else None,
        "sm_count": _integer(item.get("numSms")),
    }


def _three(value: Any) -> tuple[int, int, int] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (_integer(n) for n in value)
    return None if x is None or y is None or z is None else (x, y, z)


def _launch(args: dict[str, Any]) -> Launch:
    occupancy = args.get("est. achieved occupancy %")
    good = isinstance(occupancy, int | float | Decimal) and 0 <= occupancy <= 100
    return Launch(
        _three(args.get("grid")), _three(args.get("block")), _integer(args.get("registers per thread")), None,
        _integer(args.get("shared memory")), float(occupancy) if good and occupancy is not None else None,
    )  # fmt: skip


def _copy(name: str) -> tuple[str, bool]:
    """("H2D", whether the host's side is pageable) from "Memcpy HtoD (Pageable -> Device)" or "CopyHostToDevice"."""
    match = _COPY.search(name)
    kind = f"{match[1][0]}2{match[2][0]}" if match else ""
    return ("P2P" if "P" in kind else kind), "Pageable" in name
