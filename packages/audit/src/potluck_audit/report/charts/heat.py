"""Where an agent spends its steps, over the layout where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from potluck_audit.report.charts import canvas

Cells = Mapping[tuple[int, int], int]
GROUND = frozenset({"", "floor", "grass", "sand", "empty", "shadow", "spawn"})
NAMELESS = GROUND | {"counter", "wall", "river", "water"}
READABLE = 24.0
"""Smallest cell that holds a number."""


def heat_map(cells: Cells, tiles: Sequence[str], width: int, height: int) -> Markup:
    """Percent of the steps on each cell; small cells only show their strength and tell the number when pointed at."""
    size = min(46.0, canvas.WIDTH / max(width, 1))
    total, most = sum(cells.values()), max(cells.values(), default=1)
    body = [_layout(tiles or ["floor"] * (width * height), width, size)]
    for (x, y), steps in sorted(cells.items()):
        share = 100 * steps / total
        said = canvas.title(f"({x},{y}): {share:.1f} % of steps")
        strength = 0.12 + 0.75 * steps / most
        body.append(f'<rect {_box(x, y, size)} fill="rgb(var(--heat))" opacity="{strength:.2f}">{said}</rect>')
        if size >= READABLE:
            body.append(canvas.text((x + 0.5) * size - 0.5, (y + 0.5) * size + 3.5, f"{share:.0f}", "middle", "on"))
    if size >= READABLE:
        body += _names(cells, tiles, width, size)
    return canvas.svg(width * size, height * size, body, f"Visit heat map, {total} steps on {len(cells)} cells")


def _box(x: int, y: int, size: float) -> str:
    return f'x="{x * size:.1f}" y="{y * size:.1f}" width="{size - 1:.1f}" height="{size - 1:.1f}" rx="2"'


def _layout(tiles: Sequence[str], width: int, size: float) -> str:
    """Two paths, ground and the rest: a large map would hold a thousand boxes."""
    paths: dict[bool, list[str]] = {True: [], False: []}
    side = size - 1
    for place, tile in enumerate(tiles):
        x, y = place % width * size, place // width * size
        paths[tile in GROUND].append(f"M{x:.1f} {y:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z")
    looks = {True: "var(--paper)", False: "var(--rule)"}
    return "".join(
        f'<path d="{"".join(boxes)}" fill="{looks[ground]}" stroke="var(--rule)"/>'
        for ground, boxes in paths.items()
        if boxes
    )


def _names(cells: Cells, tiles: Sequence[str], width: int, size: float) -> list[str]:
    return [
        canvas.text((place % width + 0.5) * size - 0.5, (place // width + 0.5) * size + 3.5, tile[:8], "middle", "tile")
        for place, tile in enumerate(tiles)
        if tile not in NAMELESS and (place % width, place // width) not in cells
    ]
