"""A graph for a terminal: a box on each line, from top to bottom, and lanes beside them.

The way to the next box goes straight down. Every other way goes to the right, up or down in the
lane of the box that it leads to, and back to the left: `├─ is_new ───┐`. A lane is one box's, so
lines that meet lead to the same box; where they cross without meeting there is a `┼`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

from holdfast.fronts.graph.layers import Arc, Layers
from holdfast.fronts.graph.scene import TIMES, Box, Line, Mark, Scene, clean

MARKS: Mapping[Mark, str] = {"": "■", "done": "✓", "at": "●", "ended": "✗", "unseen": "·"}
SIGNS = {"start": "○", "end": "◎", "fork": "╤", "join": "╧"}
NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
STROKES = {
    NORTH | SOUTH: "│", EAST | WEST: "─", SOUTH | WEST: "┐", NORTH | WEST: "┘", WEST: "─",
    NORTH | SOUTH | WEST: "┤", EAST | SOUTH | WEST: "┬", NORTH | EAST | WEST: "┴",
    NORTH | EAST | SOUTH | WEST: "┼",
}  # fmt: skip


def text(scene: Scene) -> str:
    """Return the picture as lines of text."""
    return "\n".join(_lines(scene)) + "\n"


def _lines(scene: Scene) -> Iterable[str]:
    page = _Page(scene)
    yield from page.lines()
    for box in scene.boxes:
        if box.inner is not None:
            yield ""
            yield f"{box.text}:"
            yield from (f"  {line}".rstrip() for line in _lines(box.inner))


@dataclass(slots=True)
class _Lane:
    """The rows from which a box is reached, and its own."""

    target: str
    rows: list[int] = field(default_factory=list[int])

    @property
    def span(self) -> tuple[int, int]:
        return min(self.rows), max(self.rows)


class _Page:
    def __init__(self, scene: Scene) -> None:
        boxes = {box.id: box for box in scene.boxes}
        layers = Layers(tuple(boxes), [Arc(line.source, line.target) for line in scene.lines])
        self._order = [boxes[each] for row in layers.rows for each in row if each in boxes]
        self._left: list[str] = []
        self._heads: dict[str, int] = {}
        self._lanes: dict[str, _Lane] = {}
        following = [*self._order[1:], None]
        for box, after in zip(self._order, following, strict=True):
            self._add(box, [line for line in scene.lines if line.source == box.id], after)
        for target, lane in self._lanes.items():
            lane.rows.append(self._heads[target])

    def lines(self) -> list[str]:
        """Return the rows, with the lanes beside them."""
        column = _columns(list(self._lanes.values()))
        width = max(map(_width, self._left), default=0) + 2
        count = max(column.values(), default=-1) + 1
        strokes = [[0] * count for _ in self._left]
        for lane in self._lanes.values():
            _draw(lane, column[lane.target], strokes)
        heads = {self._heads[target] for target in self._lanes}
        return [
            _joined(left, row, width, is_head=number in heads)
            for number, (left, row) in enumerate(zip(self._left, strokes, strict=True))
        ]

    def _add(self, box: Box, out: Sequence[Line], after: Box | None) -> None:
        self._heads[box.id] = len(self._left)
        sign = SIGNS.get(box.kind) or MARKS[box.mark]
        told = f"  {box.told}" if box.told else ""
        self._left.append(f"{sign} {clean(box.text)}{told}")
        straight = next((line for line in out if after and line.target == after.id), None)
        others = [line for line in out if line is not straight]
        for line in others:
            self._lanes.setdefault(line.target, _Lane(line.target)).rows.append(len(self._left))
            turn = "├─" if straight or line is not others[-1] else "└─"
            self._left.append(f"{turn} {told} " if (told := _told(line)) else turn)
        if straight is not None:
            self._left += [f"│ {_told(straight)}".rstrip(), "▼"]
        elif after is not None:
            self._left.append("")


def _told(line: Line) -> str:
    often = f"{TIMES}{line.taken}" if line.taken else ""
    return clean(f"{line.label} {often}")


def _columns(lanes: list[_Lane]) -> dict[str, int]:
    """Give each lane the first column in which no other lane passes the same rows."""
    taken: list[list[tuple[int, int]]] = []
    found: dict[str, int] = {}
    for lane in sorted(lanes, key=lambda each: (each.span[1] - each.span[0], each.span)):
        first, last = lane.span
        column = next(
            (n for n, spans in enumerate(taken) if all(b < first or a > last for a, b in spans)),
            len(taken),
        )
        if column == len(taken):
            taken.append([])
        taken[column].append(lane.span)
        found[lane.target] = column
    return found


def _draw(lane: _Lane, column: int, strokes: list[list[int]]) -> None:
    first, last = lane.span
    for row in range(first, last + 1):
        strokes[row][column] |= (NORTH if row > first else 0) | (SOUTH if row < last else 0)
    for row in lane.rows:
        strokes[row][column] |= WEST
        for between in range(column):
            strokes[row][between] |= EAST | WEST


def _joined(left: str, row: Sequence[int], width: int, *, is_head: bool) -> str:
    """Put the words of a row and its strokes together."""
    if not any(row):
        return left.rstrip()
    leads = bool(row[0] & WEST)
    gap = width - _width(left)
    between = (" ◀" + "─" * (gap - 2) if is_head else "─" * gap) if leads else " " * gap
    drawn = ""
    for bits in row:
        drawn += STROKES.get(bits, " ") + ("─" if bits & EAST else " ")
    return f"{left}{between}{drawn}".rstrip()


def _width(words: str) -> int:
    return len(words) + sum(east_asian_width(c) in "WF" for c in words)
