"""Who gives what to whom: givers on the left, takers on the right, and what the objects passed through between them.

A band is as wide as the hand-offs it stands for; it has the colour of the giver, and its number stands on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from potluck_audit.report.charts import canvas

STORES = ("counter", "pot", "soup")
NAMES = {"counter": "counter", "pot": "pot", "soup": "plated soup"}
EDGE, BOX = 74.0, 12.0
TALL, GAP = 170.0, 16.0


class Flow(NamedTuple):
    """Hand-offs an episode from one agent to another through one kind of store."""

    giver: int
    store: str
    taker: int
    amount: float


def flow(flows: Sequence[Flow], agents: Sequence[str]) -> Markup:
    """Empty where nothing changed hands."""
    flows = [f for f in flows if f.amount > 0]
    if not flows:
        return Markup()
    total = sum(f.amount for f in flows)
    left = _column([sum(f.amount for f in flows if f.giver == a) for a in range(len(agents))], total)
    right = _column([sum(f.amount for f in flows if f.taker == a) for a in range(len(agents))], total)
    middle = _column([sum(f.amount for f in flows if f.store == s) for s in STORES], total)
    height = max(end for column in (left, right, middle) for _, end in column) + 24
    heads = ((EDGE, "gives", "end"), (canvas.WIDTH / 2, "through", "middle"), (canvas.WIDTH - EDGE, "takes", "start"))
    body = [canvas.text(x, 12, *head) for x, *head in heads]
    body += _bands(flows, left, middle, right, total)
    for seat, agent in enumerate(agents):
        for column, x, anchor in ((left, EDGE, "end"), (right, canvas.WIDTH - EDGE, "start")):
            top, end = column[seat]
            if end > top:
                box = BOX if anchor == "start" else -BOX
                body.append(_box(min(x, x + box) if box < 0 else x, top, end, canvas.fill(seat)))
                at = x - BOX - 5 if anchor == "end" else x + BOX + 5
                body.append(canvas.text(at, (top + end) / 2 + 4, agent, anchor, "name"))
    for place, store in enumerate(STORES):
        top, end = middle[place]
        if end > top:
            body.append(_box(canvas.WIDTH / 2 - BOX / 2, top, end, "var(--dim)"))
            body.append(canvas.text(canvas.WIDTH / 2, end + 11, NAMES[store], "middle"))
    return canvas.svg(canvas.WIDTH, height, body, _sentence(flows, agents))


def _sentence(flows: Sequence[Flow], agents: Sequence[str]) -> str:
    """For who cannot see it."""
    each = (f"{agents[f.giver]} to {agents[f.taker]} through {NAMES[f.store]} {f.amount:.2f}" for f in flows)
    return "Hand-offs per episode: " + "; ".join(each)


def _column(amounts: Sequence[float], total: float) -> list[tuple[float, float]]:
    """Top and end of each box, the empty ones without height."""
    found, y = [], 26.0
    for amount in amounts:
        tall = TALL * amount / total
        found.append((y, y + tall))
        y += tall + (GAP if amount else 0.0)
    return found


def _box(x: float, top: float, end: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{top:.1f}" width="{BOX:g}" height="{end - top:.1f}" fill="{look}"/>'


def _bands(
    flows: Sequence[Flow],
    left: Sequence[tuple[float, float]],
    middle: Sequence[tuple[float, float]],
    right: Sequence[tuple[float, float]],
    total: float,
) -> list[str]:
    """Each flow as two bands: giver to store, store to taker."""
    starts, stored = [top for top, _ in left], [top for top, _ in middle]
    ends, taken = [top for top, _ in right], [top for top, _ in middle]
    body = []
    for one in sorted(flows, key=lambda f: (STORES.index(f.store), f.giver, f.taker)):
        wide, place = TALL * one.amount / total, STORES.index(one.store)
        half = canvas.WIDTH / 2
        words = f"{NAMES[one.store]}: {one.amount:.2f} per episode"
        body.append(_band(EDGE, starts[one.giver], half - BOX / 2, stored[place], wide, one.giver, words))
        body.append(_band(half + BOX / 2, taken[place], canvas.WIDTH - EDGE, ends[one.taker], wide, one.giver, words))
        if wide >= 11:
            y = ends[one.taker] + wide / 2 + 4
            body.append(canvas.text(canvas.WIDTH - EDGE - 20, y, f"{one.amount:.1f}", "middle", "on"))
        starts[one.giver] += wide
        stored[place] += wide
        taken[place] += wide
        ends[one.taker] += wide
    return body


def _band(x1: float, y1: float, x2: float, y2: float, wide: float, seat: int, words: str) -> str:
    middle = (x1 + x2) / 2
    return (
        f'<path class="flow" d="M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}'
        f'V{y2 + wide:.1f}C{middle:.1f} {y2 + wide:.1f} {middle:.1f} {y1 + wide:.1f} {x1:.1f} {y1 + wide:.1f}Z" '
        f'fill="{canvas.colour(seat)}">{canvas.title(words)}</path>'
    )
