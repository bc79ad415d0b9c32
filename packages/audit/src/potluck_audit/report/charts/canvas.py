"""What all charts share: marks, texts, axes, and colours that are told apart without colour vision.

A seat has a colour (Okabe and Ito's, from the page's variables, so that light, dark and print have their own) and
a pattern over it, so that neither colour alone nor print loses an agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

SEATS = 8
"""Colours and patterns; more seats use them again."""
WIDTH = 440.0
"""Of a chart: on a phone it is shown nearly one to one, so that its texts stay readable."""

_HATCHES = (
    "",
    "M-2 8L8 -2M2 12L12 2",
    "M-2 2L8 12M2 -2L12 8",
    "M2.5 0V10M7.5 0V10",
    "M0 2.5H10M0 7.5H10",
    "M0 5H10M5 0V10",
    "M2 2h2v2h-2zM7 7h2v2h-2z",
    "M-2 8L8 -2M2 12L12 2M-2 2L8 12M2 -2L12 8",
)


def colour(seat: int) -> str:
    return f"var(--a{seat % SEATS})"


def fill(seat: int) -> str:
    """Colour with pattern; needs `patterns()` somewhere in the document."""
    return f"url(#seat{seat % SEATS})"


def dash(seat: int) -> str:
    """Of a line, so that lines differ without their colours."""
    return ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3", "9 2 2 2 2 2")[seat % SEATS]


def patterns() -> Markup:
    """The definitions that `fill` refers to."""
    each = (
        f'<pattern id="seat{seat}" width="10" height="10" patternUnits="userSpaceOnUse">'
        f'<rect width="10" height="10" fill="{colour(seat)}"/>'
        f'<path d="{hatch}" fill="none" stroke="var(--paper)" stroke-width="1.3"/></pattern>'
        for seat, hatch in enumerate(_HATCHES)
    )
    return Markup(f"<defs>{''.join(each)}</defs>")


def svg(width: float, height: float, body: Iterable[str], title: str) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


def text(x: float, y: float, words: object, anchor: str = "start", kind: str = "lab") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def title(words: object) -> str:
    """Shown while the pointer rests on the mark."""
    return f"<title>{escape(words)}</title>"


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from at most `low` to at least `high`, among them 0 where the range holds it."""
    if not high > low:
        return [0.0, 1.0] if high == 0 else sorted({0.0, high})
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def said(value: float, percent: bool = False, digits: int = 2) -> str:
    """A number on a chart, with a true minus."""
    shown = f"{100 * value:.1f} %" if percent else f"{value:.{digits}f}"
    return shown.replace("-", "\N{MINUS SIGN}")


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The places moved apart, so that labels beside them do not cover each other; their order stays."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + gap)
    return moved


def swatch(seat: int) -> Markup:
    """An agent's colour and pattern with its seat number, as a small picture in a line of text."""
    return Markup(
        f'<svg class="swatch" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">'
        f'<rect width="20" height="20" rx="4" fill="{fill(seat)}"/>'
        f'<text x="10" y="14.5" text-anchor="middle">{seat}</text></svg>'
    )
