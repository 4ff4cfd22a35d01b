"""How numbers are written: significant digits, one unit per reading, an en dash for what was not measured.

Every function takes None and answers "–". Digits are grouped by a narrow no-break space, units stand after a no-break space,
so that a number never parts from its unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

NONE = "–"
THIN = "\u202f"
NBSP = "\u00a0"

_TIME = ((1e-3, "ns", 1e6), (1.0, "µs", 1e3), (1e3, "ms", 1.0), (math.inf, "s", 1e-3))


def _number(value: Any) -> float | None:
    """The finite float of a value, None for anything else."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def grouped(value: Any) -> str:
    """A whole number in groups of three: 4 096."""
    number = _number(value)
    return NONE if number is None else f"{round(number):,}".replace(",", THIN)


def sig(value: Any, digits: int = 3) -> str:
    """`digits` significant digits; below 1e-3 and from 1e7 on with an exponent: 0.0123, 451, 2.3e-7."""
    number = _number(value)
    if number is None:
        return NONE
    if number == 0:
        return "0"
    size = abs(number)
    if size < 1e-3 or size >= 1e7:
        mantissa, exponent = f"{number:.{max(digits - 2, 0)}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    # Rounding first: 9.996 has three digits as "10.0", not as "10.00".
    rounded = float(f"{number:.{digits - 1}e}")
    decimals = max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)
    if decimals == 0:
        return grouped(rounded)
    return f"{rounded:.{decimals}f}"


def ratio(value: Any) -> str:
    """A speedup without its sign: two decimals below 10, then three significant digits: 1.84, 12.3, 104."""
    number = _number(value)
    if number is None:
        return NONE
    return f"{number:.2f}" if abs(number) < 9.995 else sig(number, 3)


def ratio_range(low: Any, high: Any) -> str:
    """The bounds of a speedup: "1.79 to 1.90"."""
    return NONE if _number(low) is None or _number(high) is None else f"{ratio(low)} to {ratio(high)}"


def time_unit(values_ms: Iterable[Any]) -> tuple[float, str]:
    """(factor, unit) that writes all of these milliseconds in one unit, chosen by the smallest: a table has one unit."""
    sizes = [abs(n) for n in map(_number, values_ms) if n]
    smallest = min(sizes, default=1.0)
    for limit, unit, factor in _TIME:
        if smallest < limit:
            return factor, unit
    raise AssertionError("the last limit is infinite")


def duration(ms: Any, digits: int = 3) -> str:
    """Milliseconds as ns, µs, ms or s: "88.6 µs", "1.24 ms"."""
    number = _number(ms)
    if number is None:
        return NONE
    factor, unit = time_unit([number])
    return f"{sig(number * factor, digits)}{NBSP}{unit}"


def seconds(value: Any) -> str:
    """Seconds of a step: "3.6 s", "118 s", "4 min 02 s", "15 min", "2 h 05 min"."""
    number = _number(value)
    if number is None:
        return NONE
    if number < 10:
        return f"{number:.1f}{NBSP}s"
    whole = round(number)
    if whole < 120:
        return f"{whole}{NBSP}s"
    big, small, (unit, part) = (*divmod(whole, 60), ("min", "s")) if whole < 7200 else (*divmod(whole // 60, 60), ("h", "min"))
    return f"{big}{NBSP}{unit}{NBSP}{small:02d}{NBSP}{part}" if small else f"{big}{NBSP}{unit}"


def clock(value: Any) -> str:
    """Seconds since a start as a clock: "0:07.3", "11:42.3", "1:02:05"."""
    number = _number(value)
    if number is None:
        return NONE
    number = max(number, 0.0)
    if number >= 3600:
        whole = round(number)
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    tenths = round(number * 10)
    return f"{tenths // 600}:{tenths % 600 / 10:04.1f}"


def _scaled(value: Any, unit: str, digits: int = 3) -> str:
    number = _number(value)
    if number is None:
        return NONE
    for prefix in ("", "k", "M", "G", "T"):
        if abs(number) < 999.5 or prefix == "T":
            return f"{sig(number, digits)}{NBSP}{prefix}{unit}"
        number /= 1000
    raise AssertionError("the last prefix takes everything")


def size(value: Any) -> str:
    """Bytes in powers of 1000: "0 B", "33.6 MB"."""
    number = _number(value)
    return f"{grouped(number)}{NBSP}B" if number is not None and abs(number) < 1000 else _scaled(value, "B")


def flop(value: Any) -> str:
    """Floating point operations: "137 GFLOP"."""
    return _scaled(value, "FLOP")


def flop_rate(value: Any) -> str:
    return _scaled(value, "FLOP/s")


def byte_rate(value: Any) -> str:
    return _scaled(value, "B/s")


def percent(share: Any, digits: int = 1) -> str:
    """A share 0..1 as "84.1 %"."""
    number = _number(share)
    number = None if number is None else _number(number * 100)  # which may be more than a float holds
    return NONE if number is None else f"{number:.{digits}f}{NBSP}%"


def tokens(value: Any) -> str:
    """A count of tokens: "812", "31.0 k"."""
    number = _number(value)
    if number is None:
        return NONE
    return grouped(number) if number < 1000 else f"{number / 1000:.1f}{NBSP}k"


def dollars(value: Any) -> str:
    """An amount: "0.0031 USD", "2.50 USD"; what is less than the last digit shown is said to be."""
    number = _number(value)
    if number is None:
        return NONE
    if 0 < number < 0.0001:
        return f"<{NBSP}0.0001{NBSP}USD"
    return f"{number:.{2 if number >= 1 or number == 0 else 4}f}{NBSP}USD"


def short_hash(value: str) -> str:
    """The ends of a content address: "9f3c…e1"."""
    return f"{value[:4]}…{value[-2:]}" if len(value) > 8 else value
