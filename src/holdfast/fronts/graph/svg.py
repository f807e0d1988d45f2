"""A graph as SVG: one file without scripts, readable on light and on dark pages."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from holdfast.fronts.graph.layers import Arc, Size
from holdfast.fronts.graph.layout import Area, Layout, Point, Wire, laid_out
from holdfast.fronts.graph.scene import Box, Line, Scene, clean

Theme = Literal["auto", "light", "dark"]
LONGEST = 36
"""Of a name or a label; what is cut is told when the pointer is on it."""
LETTER, SMALL = 7.8, 6.6
"""How wide a letter is, in names and in labels."""
HEAD = 22.0
"""Above a graph that is a node: its name."""
CORNER = 7.0

LIGHT = {
    "page": "#ffffff", "ink": "#17212b", "soft": "#5b6b7f", "line": "#8593a5", "fill": "#f4f6f9",
    "group": "#fafbfc", "done": "#0f766e", "done-fill": "#e2f3f0", "at": "#1d4ed8",
    "at-fill": "#e0eaff", "ended": "#b42318", "ended-fill": "#fde8e6", "faint": "#b9c2ce",
}  # fmt: skip
DARK = {
    "page": "#0f151c", "ink": "#e6edf4", "soft": "#9fb0c3", "line": "#7488a0", "fill": "#1b2430",
    "group": "#151d27", "done": "#4fd1c0", "done-fill": "#123732", "at": "#7fb0ff",
    "at-fill": "#1a2f57", "ended": "#ff8d80", "ended-fill": "#47201d", "faint": "#465465",
}  # fmt: skip
RULES = """\
.page {{ fill: {page}; }}
text {{ fill: {ink}; font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }}
.small {{ fill: {soft}; font-size: 11px; }}
.box {{ fill: {fill}; stroke: {line}; stroke-width: 1.3; }}
.group {{ fill: {group}; stroke: {line}; stroke-width: 1.3; }}
.wire {{ fill: none; stroke: {line}; stroke-width: 1.4; }}
.head, .place, .bar {{ fill: {line}; stroke: none; }}
.halo {{ fill: {page}; }}
g .halo {{ fill: {group}; }}
.box.done, .group.done {{ stroke: {done}; fill: {done-fill}; }}
.box.at, .group.at {{ stroke: {at}; fill: {at-fill}; stroke-width: 2.4; }}
.box.ended, .group.ended {{ stroke: {ended}; fill: {ended-fill}; stroke-width: 2.4; }}
.box.unseen, .group.unseen {{ stroke: {faint}; stroke-dasharray: 4 3; }}
.group.done, .group.at, .group.ended {{ fill: {group}; }}
.wire.done {{ stroke: {done}; stroke-width: 2.2; }}
.wire.unseen {{ stroke: {faint}; stroke-dasharray: 4 3; }}
.head.done, .place.done, .bar.done {{ fill: {done}; }}
.head.unseen, .place.unseen, .bar.unseen {{ fill: {faint}; }}
.told.done {{ fill: {done}; }} .told.at {{ fill: {at}; }} .told.ended {{ fill: {ended}; }}
"""


class Drawing(NamedTuple):
    """A scene with its places, and those of the graphs inside it."""

    scene: Scene
    layout: Layout
    inner: Mapping[str, Drawing]

    @property
    def size(self) -> Size:
        """How large it is."""
        return self.layout.size


def drawn(scene: Scene) -> Drawing:
    """Return where everything of a scene is."""
    inner = {box.id: drawn(box.inner) for box in scene.boxes if box.inner is not None}
    sizes = {box.id: _size(box, inner.get(box.id)) for box in scene.boxes}
    arcs = [Arc(line.source, line.target, _label_size(line)) for line in scene.lines]
    return Drawing(scene, laid_out(sizes, arcs), inner)


def svg(scene: Scene, theme: Theme = "auto") -> str:
    """Return the text of the picture. `auto` goes by what the reader's system is set to."""
    drawing = drawn(scene)
    width, height = drawing.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" role="img">',
        f"<title>{escape(clean(scene.name))}</title>",
        f"<style>\n{_rules(theme)}</style>",
        f'<rect class="page" width="{_n(width)}" height="{_n(height)}"/>',
        *_drawing(drawing),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rules(theme: Theme) -> str:
    if theme != "auto":
        return RULES.format_map(LIGHT if theme == "light" else DARK)
    dark = "".join(f"  {line}\n" for line in RULES.format_map(DARK).splitlines())
    return f"{RULES.format_map(LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _drawing(drawing: Drawing) -> Iterator[str]:
    scene, layout, inner = drawing
    pairs = zip(scene.lines, layout.wires, strict=True)
    for line, wire in sorted(pairs, key=lambda pair: bool(pair[0].taken)):  # what was taken, above
        yield from _wire(line, wire)
    for box in scene.boxes:
        area = layout.boxes[box.id]
        if box.id in inner:
            yield from _group(box, area, inner[box.id])
        else:
            yield from _box(box, area)
    for line, wire in zip(scene.lines, layout.wires, strict=True):
        if wire.label is not None:
            x, y, width, height = wire.label
            yield f'<rect class="halo" {_rect(wire.label)} rx="3"/>'
            area = Area(x, y, width - 8, height)
            yield _text(line.told, area, "small", SMALL)


def _size(box: Box, inner: Drawing | None) -> Size:
    if box.kind in ("start", "end"):
        return Size(22, 22)
    if box.kind in ("fork", "join"):
        return Size(84, 6)
    words = max(_width(box.text, LETTER), _width(box.told, SMALL))
    if inner is not None:
        foot = 16.0 if box.told else 0.0
        return Size(max(words + 28, inner.size.width), inner.size.height + HEAD + foot)
    return Size(max(words + 28, 72), 46 if box.told else 36)


def _label_size(line: Line) -> Size | None:
    return Size(_width(line.told, SMALL) + 8, 16) if line.told else None


def _box(box: Box, area: Area) -> Iterator[str]:
    x, y, width, height = area
    if box.kind in ("start", "end"):
        yield f'<circle class="place {box.mark}" cx="{_n(x)}" cy="{_n(y)}" r="10"/>'
        if box.kind == "end":
            yield f'<circle class="halo" cx="{_n(x)}" cy="{_n(y)}" r="6.5"/>'
            yield f'<circle class="place {box.mark}" cx="{_n(x)}" cy="{_n(y)}" r="4"/>'
        return
    if box.kind in ("fork", "join"):
        yield f'<rect class="bar {box.mark}" {_rect(area)} rx="3"><title>{box.kind}</title></rect>'
        return
    corner = height / 2 if box.kind == "body" else 6
    yield f'<rect class="box {box.mark}" {_rect(area)} rx="{_n(corner)}"/>'
    if box.kind == "run":
        for edge in (x - width / 2 + 6, x + width / 2 - 6):
            top, bottom = _n(y - height / 2), _n(y + height / 2)
            yield f'<path class="wire {box.mark}" d="M{_n(edge)} {top}V{bottom}"/>'
    up = 8 if box.told else 0
    yield _text(box.text, Area(x, y - up, width - 28, 16), "", LETTER)
    if box.told:
        yield _text(box.told, Area(x, y + 11, width - 28, 14), f"small told {box.mark}", SMALL)


def _group(box: Box, area: Area, inner: Drawing) -> Iterator[str]:
    x, y, width, height = area
    top = y - height / 2
    yield f'<rect class="group {box.mark}" {_rect(area)} rx="8"/>'
    yield _text(box.text, Area(x, top + 14, width - 28, 16), "", LETTER)
    left = x - inner.size.width / 2
    yield f'<g transform="translate({_n(left)} {_n(top + HEAD)})">'
    yield from _drawing(inner)
    yield "</g>"
    if box.told:
        foot = Area(x, y + height / 2 - 10, width - 28, 14)
        yield _text(box.told, foot, f"small told {box.mark}", SMALL)


def _wire(line: Line, wire: Wire) -> Iterator[str]:
    mark = "" if line.taken is None else "done" if line.taken else "unseen"
    points = wire.points
    path = _rounded(points) if wire.leads_back else _bent(points)
    yield f'<path class="wire {mark}" d="{path}"/>'
    x, y = points[-1]
    head = f"M{_n(x - 4.5)} {_n(y - 8)}L{_n(x + 4.5)} {_n(y - 8)}L{_n(x)} {_n(y)}Z"
    yield f'<path class="head {mark}" d="{head}"/>'


def _bent(points: Sequence[Point]) -> str:
    """Return a path that is straight in rows, and bends between them."""
    path = f"M{_n(points[0].x)} {_n(points[0].y)}"
    for before, after in pairwise(points):
        if before.x == after.x:
            path += f"V{_n(after.y)}"
        else:
            middle = (before.y + after.y) / 2
            path += f"C{_n(before.x)} {_n(middle)} {_n(after.x)} {_n(middle)}"
            path += f" {_n(after.x)} {_n(after.y)}"
    return path


def _rounded(points: Sequence[Point]) -> str:
    """Return a path of straight parts with round corners."""
    path = f"M{_n(points[0].x)} {_n(points[0].y)}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        first, second = _towards(corner, before), _towards(corner, after)
        path += f"L{_n(first.x)} {_n(first.y)}Q{_n(corner.x)} {_n(corner.y)}"
        path += f" {_n(second.x)} {_n(second.y)}"
    return f"{path}L{_n(points[-1].x)} {_n(points[-1].y)}"


def _towards(corner: Point, other: Point) -> Point:
    far = abs(other.x - corner.x) + abs(other.y - corner.y)
    part = min(CORNER, far / 2) / far if far else 0
    return Point(
        corner.x + (other.x - corner.x) * part,
        corner.y + (other.y - corner.y) * part,
    )


def _text(words: str, area: Area, kind: str, letter: float) -> str:
    """Return words in the middle of an area, never wider than they were thought to be."""
    told = escape(short(words))
    width = min(_width(words, letter), area.width)
    fit = f'textLength="{_n(width)}" lengthAdjust="spacingAndGlyphs"' if words else ""
    whole = f"<title>{escape(clean(words))}</title>" if short(words) != clean(words) else ""
    y = area.y + (4.5 if letter == LETTER else 3.8)
    return (
        f'<text class="{kind}" x="{_n(area.x)}" y="{_n(y)}" text-anchor="middle" {fit}>'
        f"{told}{whole}</text>"
    )


def short(words: str) -> str:
    """Return words as they are drawn: in one line, and not too long."""
    line = clean(words)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _width(words: str, letter: float) -> float:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in short(words))
    return round((len(short(words)) + wide) * letter, 1)


def _rect(area: Area) -> str:
    x, y, width, height = area
    left, top = _n(x - width / 2), _n(y - height / 2)
    return f'x="{left}" y="{top}" width="{_n(width)}" height="{_n(height)}"'


def _n(number: float) -> str:
    return f"{round(number, 1):g}"
