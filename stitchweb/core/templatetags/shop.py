"""The shop's template vocabulary: numbers with units, icons, chips, dates. Everything escapes what it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from gpu_runner.sandbox.output import readable
from stitchweb.core import numbers, verdicts
from stitchweb.core.once import FIELD, fresh

register = template.Library()

for name in (
    "grouped", "sig", "ratio", "duration", "seconds", "clock", "size", "flop", "flop_rate", "byte_rate", "percent", "tokens",
    "dollars", "short_hash",
):  # fmt: skip
    register.filter(name, getattr(numbers, name))


register.filter("readable", readable)


@register.simple_tag
def now_s() -> str:
    """The server's clock, in seconds since the epoch: what counts on a page counts by it."""
    return f"{datetime.now(UTC).timestamp():.3f}"


@register.simple_tag
def once() -> SafeString:
    """The hidden field that lets a form be taken once, however often it is sent."""
    return format_html('<input type="hidden" name="{}" value="{}">', FIELD, fresh())


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """An icon of the sprite. Hidden from screen readers unless it has a label: the word stands beside it."""
    if label:
        return format_html('<svg class="ic" role="img" aria-label="{}"><use href="#i-{}"/></svg>', label, name)
    return format_html('<svg class="ic" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def chip(word: str, hue: str = "", sign: str = "") -> SafeString:
    """A word in a box, with an icon where it is a verdict or a state."""
    mark = icon(sign) if sign else ""
    return format_html('<span class="{}">{}{}</span>', f"chip {hue}".strip(), mark, word)


@register.simple_tag
def speedup(interval: Any, bold: bool, ended: bool = False) -> SafeString:
    """A ratio, never without its bounds: bold where it is significant, grey where it is not.

    Where there is none: a dash, or "no claim" of what has ended.
    """
    if interval is None:
        return format_html('<span class="t3">{}</span>', "no claim" if ended else numbers.NONE)
    value = numbers.ratio(interval.value)
    shown = format_html("<b>{}</b>", value) if bold else format_html('<span class="t3">{}</span>', value)
    return format_html(
        '{}<i>×</i> <span class="rng">{}–{}</span>', shown, numbers.ratio(interval.low), numbers.ratio(interval.high)
    )


@register.simple_tag
def verdict(word: str | None) -> SafeString:
    """The chip of a verdict, a label, or a run's state: icon, word, hue."""
    if not word:
        return format_html('<span class="t3">{}</span>', numbers.NONE)
    sign, hue = verdicts.look(word)
    return chip(word.replace("hack:", "hack: ").replace("_", " "), hue, sign)


@register.simple_tag
def meter(share: float, label: str, accent: bool = False) -> SafeString:
    """A bar of a share 0..1; the number stands beside it and in the label."""
    percent = numbers.percent(share, 0)
    return format_html(
        '<svg class="bar" role="img" aria-label="{}: {}"><rect class="bar-t" width="100%" height="100%"/>'
        '<rect class="{}" width="{}%" height="100%"/></svg>',
        label, percent, "fill-a" if accent else "bar-f", round(100 * min(max(float(share), 0.0), 1.0), 1),
    )  # fmt: skip


@register.filter
def get(mapping: Any, key: Any) -> Any:
    """`mapping[key]`, or None."""
    return mapping.get(key) if mapping else None


@register.filter
def label_words(label: str) -> str:
    """What a label beside a verdict means, in a sentence."""
    return verdicts.LABELS.get(str(label), "")


@register.filter
def ns(value: Any) -> str:
    """Nanoseconds with a fitting unit."""
    return numbers.duration(value / 1e6) if isinstance(value, int | float) else numbers.NONE


# What a measurement says about itself: how it is called on a page, and how its value is written. None: told elsewhere.
_FACTS: dict[str, tuple[str, Callable[[Any], str]] | None] = {
    "rounds": None,
    "samples_per_round": None,
    "samples_compared": ("outputs compared", numbers.grouped),
    "samples_made": ("calls made", numbers.grouped),
    "load_average": ("load average, 1 min", "{:.2f}".format),
    "cache_evicted_bytes": ("cache evicted", numbers.size),
    "outside_clock_gap_us": ("clocks differ by at most", lambda gaps: numbers.duration(max(map(abs, gaps.values())) / 1000)),
}


@register.filter
def facts(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each fact of a measurement, in words and units; one that nobody taught us under its own name."""
    told = []
    for key, value in values.items():
        known = _FACTS.get(key, (words(key), _plain))
        if known and value not in (None, {}):
            told.append((known[0], known[1](value)))
    return told


def _plain(value: Any) -> str:
    """Numbers to four digits, yes or no, texts short."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)[:120]


@register.filter
def reading(text: str) -> str:
    """A runner's reading in the page's own writing: 1.1e-06 as 1.1e-6, a per cent sign apart from its number."""
    return re.sub(r"(\d)%", rf"\1{numbers.NBSP}%", re.sub(r"e([+-])0+(?=\d)", r"e\1", text))


@register.filter
def range_of(interval: Any) -> str:
    """The bounds of an Interval: "1.79 to 1.90"."""
    return numbers.ratio_range(interval.low, interval.high) if interval else numbers.NONE


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    return value if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)


@register.filter
def moment(value: Any) -> SafeString | str:
    """A point in time as `2026-11-29 21:04 UTC`, readable by machines and, with JavaScript, told in the reader's own zone."""
    when = _moment(value)
    if when is None:
        return numbers.NONE
    when = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-local>{}</time>', when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M UTC")
    )


@register.filter
def day(value: Any) -> SafeString | str:
    """The day of a moment that is written in ISO 8601, for machines with its time: 2026-11-30."""
    try:
        when = datetime.fromisoformat(str(value)).astimezone(UTC)
    except ValueError:
        return numbers.NONE
    return format_html('<time datetime="{}">{}</time>', when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d"))


@register.filter
def ago(value: Any) -> SafeString | str:
    """How long ago, in one unit: "9 min". The moment itself is in the element for machines and as its title."""
    when = _moment(value)
    if when is None:
        return numbers.NONE
    seconds = max((datetime.now(UTC) - when).total_seconds(), 0)
    units = ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h"))
    size, unit = next(((size, unit) for bound, size, unit in units if seconds < bound), (86_400, "d"))
    return format_html(
        '<time datetime="{}" title="{}">{} {} ago</time>',
        when.isoformat(timespec="seconds"), when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"), round(seconds / size), unit,
    )  # fmt: skip


@register.filter
def sentence(exception: Any, default: str) -> str:
    """What an error page says: the refusal's own sentence, else the general one. Django's own are for programmers."""
    text = str(exception or "")
    return text if text.endswith(".") and not text.startswith("{") else default


@register.filter
def op(name: Any) -> SafeString:
    """An operator without the namespace that all of them share, with places where its line may break."""
    bare = str(name).removeprefix("aten::").removeprefix("aten.")
    return format_html_join(mark_safe("_<wbr>"), "{}", ((part,) for part in bare.split("_")))


@register.filter
def op_list(names: Iterable[Any], most: int = 6) -> SafeString:
    """Operators in a row, each once, the first `most` of them: "gelu, addmm and 3 more"."""
    distinct = list(dict.fromkeys(names))
    shown = format_html_join(", ", "{}", ((op(name),) for name in distinct[:most]))
    return format_html("{} and {} more", shown, len(distinct) - most) if len(distinct) > most else shown


@register.filter
def arm(name: str) -> str:
    """What a timing arm is called: eager, or a mode of torch.compile."""
    return name if name in ("eager", "candidate") else f"compile {name}"


@register.filter
def rows(text: str) -> int:
    """Height of a text box in lines."""
    return min(max(text.count("\n") + 2, 8), 40)


@register.filter
def since(value: Any) -> SafeString | str:
    """When something began; with JavaScript it counts: "for 12 s"."""
    when = _moment(value)
    if when is None:
        return ""
    when = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-since>since {}</time>', when.isoformat(timespec="seconds"), when.strftime("%H:%M:%S UTC")
    )


@register.filter
def words(name: str) -> str:
    """A name of code as words: awaiting_approval → awaiting approval, not-claimed → not claimed."""
    return name.replace("_", " ").replace("-", " ")
