"""A publication in a picture: a badge for a README and a card for previews, as SVG without scripts, fonts or links.

They say the number with its interval, its baseline, its protocol and its device, and the labels that qualify it; without the
right to show numbers they say the name alone.
"""

from __future__ import annotations

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.core.numbers import ratio
from stitchweb.sharing.models import Publication

FONT = "font-family=\"-apple-system,'Segoe UI',Roboto,'Liberation Sans',Arial,sans-serif\""
_CARD = (1200, 630)  # what previews are cut to


def _width(text: str) -> int:
    """An upper estimate of the width of a text at 11 px, in px."""
    return (
        round(sum(3.6 if c in "ijl.,:;'|!1 ()[]" else 8.8 if c in "mwMW@%" else 7.0 if c.isupper() else 6.3 for c in text)) + 12
    )


def words_of(row: Publication, numbers: bool) -> str:
    """The right half of a badge."""
    labels = [label.replace("-", " ") for label in row.loud_labels]
    if not numbers:
        return ", ".join([f"v{row.version}, verified", *labels])
    over, baseline = row.headline
    if over is None:
        return ", ".join(["verified, no speed claimed", row.protocol, *labels])
    speed = f"{ratio(over.value)}× over {baseline if baseline == 'eager' else 'compile'} ({ratio(over.low)}–{ratio(over.high)})"
    parts = [speed if row.faster else f"{speed}, {row.speed.replace('-', ' ')}", row.target, row.protocol]
    return ", ".join([*parts, *labels])


def badge(left: str, right: str) -> SafeString:
    """Two words in a row, 20 px high: what it is, and what is known of it."""
    left, right = left[:60], right[:140]
    a, b = _width(left), _width(right)
    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="20" role="img" aria-label="{left}: {right}">'
        '<title>{left}: {right}</title><rect width="{w}" height="20" rx="3" fill="#235bc8"/>'
        '<path d="M3 0h{inner}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#191e27"/>'
        '<g fill="#fff" font-size="11" {font} text-rendering="geometricPrecision">'
        '<text x="6" y="14" textLength="{ta}" lengthAdjust="spacingAndGlyphs">{left}</text>'
        '<text x="{x}" y="14" textLength="{tb}" lengthAdjust="spacingAndGlyphs">{right}</text></g></svg>',
        w=a + b, inner=a - 3, x=a + 6, ta=a - 12, tb=b - 12, left=left, right=right, font=SafeString(FONT),
    )  # fmt: skip


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def card(row: Publication, numbers: bool) -> SafeString:
    """1200 by 630 px: the name, the one number that is claimed with what it stands on, and the labels."""
    over, baseline = row.headline if numbers else (None, "")
    lines: list[tuple[int, int, str, str]] = []  # y, size, fill, text
    if over is not None:
        against = "eager PyTorch" if baseline == "eager" else f"torch.compile, {baseline}"
        lines += [
            (350, 150, "#191e27" if row.faster else "#5e656f", f"{ratio(over.value)}×"),
            (420, 34, "#464c56", f"over {against}, 95 % interval {ratio(over.low)} to {ratio(over.high)}"),
        ]
        if not row.faster:
            lines.append((466, 30, "#5e656f", row.speed.replace("-", " ")))
    elif numbers:
        lines.append((340, 54, "#464c56", "Verified. No speed is claimed."))
    else:
        lines.append((340, 54, "#464c56", "A verified PyTorch program"))
    if numbers:
        facts = [row.target, _cut(row.device, 44), f"protocol {row.protocol}", "" if row.confirmed else "quick timing"]
        lines.append((520, 30, "#464c56", " · ".join(fact for fact in facts if fact)))
    labels = [label.replace("-", " ") for label in row.loud_labels]
    if labels:
        lines.append((566, 30, "#975f01", f"! {', '.join(labels)}"))
    width, height = _CARD
    drawn = format_html_join(
        "",
        '<text x="72" y="{}" font-size="{}" fill="{}"{}>{}</text>',
        (
            (y, size, fill, SafeString(' font-weight="600" letter-spacing="-3"') if size > 100 else "", text)
            for y, size, fill, text in lines
        ),
    )
    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{said}">'
        '<title>{said}</title><rect width="{w}" height="{h}" fill="#fff"/><rect width="{w}" height="12" fill="#235bc8"/>'
        '<g fill="none" stroke-width="7" stroke-linecap="round" stroke-dasharray="14 11" stroke="#191e27">'
        '<path transform="translate(60 44) scale(2.6)" stroke-width="2.2" stroke-dasharray="4.4 3.3"'
        ' d="M17.5 7.2C16 4.6 7 3.6 7 8.2s10.5 3 10.5 7.6S8 20 6.3 16.8"/></g>'
        '<circle cx="105.500" cy="62.700" r="5.500" fill="#235bc8"/>'
        '<g {font}><text x="140" y="90" font-size="34" font-weight="600" fill="#191e27">StitchWeb</text>'
        '<text x="72" y="190" font-size="{size}" font-weight="600" fill="#191e27">{name}</text>{drawn}</g></svg>',
        w=width, h=height, font=SafeString(FONT), drawn=drawn, name=_cut(str(row), 52), size=54 if len(str(row)) <= 34 else 38,
        said=f"{row}: {words_of(row, numbers)}",
    )  # fmt: skip
