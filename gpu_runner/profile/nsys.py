"""A report of Nsight Systems, exported as SQLite, becomes a Trace. Export schemas 2.x and 3.x.

The file is untrusted: it is opened read-only and immutable, a statement may only read plain tables, values have a size limit,
and everything runs against a deadline. Environment, process list, host, user and command line are never read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpu_runner.profile import ranges
from gpu_runner.profile.limits import Meter, UnreadableProfile
from gpu_runner.profile.names import clean
from gpu_runner.profile.rows import Row
from gpu_runner.profile.trace import Call, GpuRow, Launch, Trace

MAGIC = b"SQLite format 3\x00"
_VALUE_BYTES = 1 << 20
_PID = ~0xFFFFFF  # of a globalTid
_PUSH_POP, _START_END = 59, 60
_COPY = {1: "H2D", 2: "D2H", 8: "D2D", 9: "H2H", 10: "P2P", 11: "UVM_H2D", 12: "UVM_D2H", 13: "UVM_D2D"}
_COPY_NAMES = {
    "H2D": "Memcpy HtoD", "D2H": "Memcpy DtoH", "D2D": "Memcpy DtoD", "H2H": "Memcpy HtoH", "P2P": "Memcpy PtoP",
    "UVM_H2D": "Unified memory HtoD", "UVM_D2H": "Unified memory DtoH", "UVM_D2D": "Unified memory DtoD",
}  # fmt: skip
_PAGEABLE = 0
_SUFFIX = re.compile(r"_v\d+(_ptsz|_ptds)?$")
_COMPUTED = re.compile(r"\bas\b", re.IGNORECASE)  # a column that is an expression
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_LOST = re.compile(r"not all .{0,40}events|events? (?:were|was) (?:lost|dropped)|buffer.{0,40}(?:full|overflow)", re.IGNORECASE)


def read_nsys(path: Path, meter: Meter, range_name: str = "", warmup: int = 0) -> Trace:
    """Read a `.sqlite` export. Raises UnreadableProfile."""
    try:
        with closing(_open(path, meter)) as base:
            return _Reader(base, meter).trace(range_name, warmup)
    except sqlite3.DataError:
        raise UnreadableProfile(f"A value of the SQLite file is larger than {_VALUE_BYTES >> 20} MB.") from None
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:  # names of columns may be no text
        meter.clock()  # an interrupted statement is the deadline
        raise UnreadableProfile(
            f"The SQLite file cannot be read ({clean(_sqlite_words(error))[:100]}): export the report again."
        ) from None


def _sqlite_words(error: Exception) -> str:
    return "a name in it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _open(path: Path, meter: Meter) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    base = sqlite3.connect(address, uri=True, isolation_level=None, cached_statements=0)
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    base.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 64 << 10)
    base.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 20)
    base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    base.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
    base.execute("pragma trusted_schema=off")
    base.execute("pragma query_only=on")
    base.execute("pragma cell_size_check=on")
    base.execute("pragma mmap_size=0")
    base.execute("pragma cache_size=-8000")
    base.set_progress_handler(meter.late, 20_000)

    # From here on a statement may read and nothing else: no function, no pragma, no view's own statement.
    def allow(action: int, one: str | None, two: str | None, database: str | None, inner: str | None) -> int:
        return sqlite3.SQLITE_OK if action in _READS and inner is None else sqlite3.SQLITE_DENY

    base.set_authorizer(allow)
    base.text_factory = lambda data: data.decode("utf-8", "replace")
    return base


class _Reader:
    """Reads each table once, in order of start."""

    def __init__(self, base: sqlite3.Connection, meter: Meter) -> None:
        self._base = base
        self._meter = meter
        self._tables: set[str] = set()
        for name, kind, root, sql in base.execute("select name, type, rootpage, sql from sqlite_master limit 2000"):
            plain = kind == "table" and isinstance(root, int) and root > 0 and isinstance(sql, str)
            if plain and isinstance(name, str) and sql[:13].upper() == "CREATE TABLE " and not _COMPUTED.search(sql):
                self._tables.add(name)

    def trace(self, range_name: str, warmup: int) -> Trace:
        meta = {str(k): v for k, v in self._rows("META_DATA_EXPORT", "name value")}
        meta = meta or {str(k): v for k, v in self._rows("EXPORT_META_DATA", "name value")}
        if not meta and not any(t.startswith("CUPTI_ACTIVITY_") or t == "StringIds" for t in self._tables):
            raise UnreadableProfile(
                "The SQLite file holds no table of Nsight Systems: export one with nsys export --type=sqlite."
            )
        trace = Trace(
            tool="nsys",
            tool_version=clean(str(meta.get("EXPORT_PRODUCT_VERSION") or ""))[:40].replace("unnamed", ""),
            format_version=clean(str(meta.get("EXPORT_SCHEMA_VERSION") or ""))[:20].replace("unnamed", ""),
        )
        kernels, calls, marks = list(self._kernels()), list(self._calls()), list(self._marks())
        wanted = {name for name, _ in kernels} | {name for name, _ in calls} | {name for name, _ in marks}
        names = self._names(wanted)
        for number, row in kernels:
            row.name = names.get(number, "unnamed")
            trace.gpu.append(row)
        trace.gpu += self._copies()
        trace.gpu += self._memsets()
        trace.gpu.sort(key=lambda row: row.start)
        for number, call in calls:
            call.name = _SUFFIX.sub("", names.get(number, "unnamed"))
            trace.calls.append(call)
        for number, mark in marks:
            mark.name = mark.name or names.get(number, "unnamed")
            trace.host.append(mark)
        trace.devices = self._devices()
        if not any(row.kind == "kernel" for row in trace.gpu):
            if self._rows_in("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"):
                trace.missing = "CUDA graphs were recorded as a whole: profile with --cuda-graph-trace=node"
            elif any("LaunchKernel" in call.name for call in trace.calls):
                trace.missing = "the report holds launches but no kernels: the GPU's events were lost"
            elif not trace.gpu:
                trace.missing = "the report holds no GPU events: profile the process that uses the GPU, with --trace=cuda"
        trace.ranges, trace.basis = ranges.choose(trace.host, range_name, warmup)
        self._diagnostics(trace)
        return trace

    def _rows_in(self, table: str) -> bool:
        return table in self._tables and self._base.execute(f'select 1 from "{table}" limit 1').fetchone() is not None  # noqa: S608

    def _rows(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table; a column that this version lacks is None."""
        if table not in self._tables:
            return
        # "select *" fetches no value: a column is read where it is asked for.
        there = {d[0] for d in self._base.execute(f'select * from "{table}" limit 0').description}  # noqa: S608
        chosen = [f'"{name}"' if name in there else "null" for name in columns.split()]
        for row in self._base.execute(f'select {", ".join(chosen)} from "{table}"'):  # noqa: S608
            self._meter.event()
            yield row

    def _intervals(self, table: str, columns: str) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(start, end, the rest) in nanoseconds. A row without a usable interval is left out."""
        for start, end, *rest in self._rows(table, "start end " + columns):
            if isinstance(start, int) and isinstance(end, int) and -(1 << 60) < start <= end < 1 << 60:
                self._meter.row()
                yield start, end, tuple(rest)

    def _kernels(self) -> Iterator[tuple[int, GpuRow]]:
        columns = (
            "deviceId streamId globalPid correlationId demangledName shortName gridX gridY gridZ blockX blockY blockZ"
            " registersPerThread staticSharedMemory dynamicSharedMemory"
        )
        shapes: dict[tuple[Any, ...], Launch] = {}  # a program has few
        for start, end, rest in self._intervals(_KERNELS, columns):
            device, stream, pid, correlation, name, short_name = rest[:6]
            shape = rest[6:]
            launch = shapes.get(shape)
            if launch is None:
                launch = shapes[shape] = _launch(shape)
            row = GpuRow("kernel", "", start, end, _whole(device) or 0, _whole(stream) or 0, _key(pid, correlation))
            row.launch = launch
            yield _whole(name) or _whole(short_name) or 0, row

    def _copies(self) -> Iterator[GpuRow]:
        columns = "deviceId streamId globalPid correlationId bytes copyKind srcKind dstKind"
        for start, end, rest in self._intervals("CUPTI_ACTIVITY_KIND_MEMCPY", columns):
            device, stream, pid, correlation, size, kind, source, target = rest
            copy = _COPY.get(kind, "") if isinstance(kind, int) else ""
            host = source if copy == "H2D" else target if copy == "D2H" else None
            pageable = host == _PAGEABLE and host is not None and not isinstance(host, bool)
            yield GpuRow(
                "copy", _COPY_NAMES.get(copy, "Memcpy"), start, end, _whole(device) or 0, _whole(stream) or 0,
                _key(pid, correlation), _whole(size), copy, pageable,
            )  # fmt: skip

    def _memsets(self) -> Iterator[GpuRow]:
        columns = "deviceId streamId globalPid correlationId bytes"
        for start, end, rest in self._intervals("CUPTI_ACTIVITY_KIND_MEMSET", columns):
            device, stream, pid, correlation, size = rest
            yield GpuRow(
                "memset", "Memset", start, end, _whole(device) or 0, _whole(stream) or 0, _key(pid, correlation), _whole(size)
            )

    def _calls(self) -> Iterator[tuple[int, Call]]:
        for start, end, rest in self._intervals("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid correlationId nameId"):
            thread, correlation, name = rest
            yield _whole(name) or 0, Call("", start, end, str(thread)[:24], _key(thread, correlation))

    def _marks(self) -> Iterator[tuple[int, Row]]:
        """NVTX ranges. Text stands in the row or in StringIds."""
        for start, end, rest in self._intervals("NVTX_EVENTS", "eventType text textId globalTid"):
            kind, text, number, thread = rest
            if kind not in (_PUSH_POP, _START_END):
                continue
            # Ranges that are started and ended may cross each other: a thread of their own keeps them out of the call stack.
            lane = f"{thread}"[:24] if kind == _PUSH_POP else f"{thread}"[:24] + " ranges"
            name = clean(text) if isinstance(text, str) and text else ""
            yield _whole(number) or 0, Row("nvtx", name, start, end - start, lane)

    def _names(self, wanted: set[int]) -> dict[int, str]:
        return {
            number: clean(value)
            for number, value in self._rows("StringIds", "id value")
            if isinstance(number, int) and number in wanted and isinstance(value, str)
        }

    def _devices(self) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        columns = "id name smCount memoryBandwidth computeMajor computeMinor"
        for number, name, sms, bandwidth, major, minor in self._rows("TARGET_INFO_GPU", columns):
            if isinstance(number, int) and len(found) < 64:
                known = isinstance(major, int) and isinstance(minor, int)
                found[number] = {
                    "name": clean(name)[:100] if isinstance(name, str) else "",
                    "cc": f"{major}{minor}" if known else None,
                    "sm_count": _whole(sms),
                    "mem_bandwidth_Bps": _whole(bandwidth) or None,
                }
        return found

    def _diagnostics(self, trace: Trace) -> None:
        """What the tool complains about is counted, not quoted: its sentences hold paths and process names.

        That events may be missing it says of nearly every range that a program opens and closes (seen with 2025.3.1: of none of
        1050 launches). So that is held against the launches of the measured iterations.
        """
        count, doubted = 0, False
        for severity, text in self._rows("DIAGNOSTIC_EVENT", "severity text"):
            if isinstance(severity, int) and severity > 1:
                count += 1
                doubted = doubted or (isinstance(text, str) and bool(_LOST.search(text[:1000])))
        if count:
            trace.lost = doubted and not _whole_ranges(trace)
            lost = ", and that events were lost" if trace.lost else ""
            lost = lost or (", but no launch of the measured iterations is without its kernel" if doubted else "")
            trace.warnings.append(f"nsys reports {count} warnings or errors of its own{lost}")


def _whole_ranges(trace: Trace) -> bool:
    """Whether there are measured iterations, with launches, and each launch left a row."""
    if not trace.ranges:
        return False
    start, end = trace.ranges[0][0], trace.ranges[-1][1]
    launches = {call.key for call in trace.calls if "Launch" in call.name and start <= call.start and call.end <= end}
    return bool(launches) and launches <= {row.key for row in trace.gpu}


def _launch(shape: tuple[Any, ...]) -> Launch:
    gx, gy, gz, bx, by, bz, regs, static, dynamic = (_whole(n) for n in shape)
    grid = (gx, gy, gz) if gx is not None and gy is not None and gz is not None else None
    block = (bx, by, bz) if bx is not None and by is not None and bz is not None else None
    return Launch(grid, block, regs, static, dynamic)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and -(1 << 62) < value < 1 << 62 else None


def _key(process: Any, correlation: Any) -> tuple[int, int] | None:
    """Correlation ids repeat between processes; 0 is none."""
    if not isinstance(process, int) or not isinstance(correlation, int) or not correlation:
        return None
    return process & _PID, correlation
