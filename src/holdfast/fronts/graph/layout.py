"""Where the boxes and lines of a picture are, given how large they are.

Boxes stand in rows (`layers.py`), each as near as it can to those it is linked with. In a row lines
go straight down, so they pass no box; they bend between rows. A line that leads back leaves its box
below, goes up in a lane beside the rows, and comes to its target from above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.fronts.graph.columns import placed
from holdfast.fronts.graph.layers import Arc, Layers, Size

BEND = 26.0
"""Between two rows, for lines to bend in."""
HEAD = 8.0
"""Above a box, where lines that come to it are straight."""
TRACK = 9.0
"""For each line that leads back, between the rows where it leaves and where it comes."""
LANE = 18.0
MARGIN = 14.0


class Point(NamedTuple):
    x: float
    y: float


class Area(NamedTuple):
    """A rectangle, by its middle."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Area) -> bool:
        """Tell whether they have a point in common that is inside both."""
        beside = abs(self.x - other.x) * 2 >= self.width + other.width - 1e-6
        above = abs(self.y - other.y) * 2 >= self.height + other.height - 1e-6
        return not beside and not above


@dataclass(frozen=True, slots=True)
class Wire:
    """A line: straight where two points share an x or a y, bent where they do not."""

    points: tuple[Point, ...]
    label: Area | None
    leads_back: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole picture. Wires are in the order of the lines that were given."""

    boxes: Mapping[str, Area]
    wires: tuple[Wire, ...]
    size: Size


def laid_out(boxes: Mapping[str, Size], arcs: Sequence[Arc]) -> Layout:
    """Return where everything is."""
    return _Plan(boxes, arcs).layout()


class _Plan:
    def __init__(self, boxes: Mapping[str, Size], arcs: Sequence[Arc]) -> None:
        self.arcs = arcs
        self.layers = layers = Layers(tuple(boxes), arcs)
        self.sizes = dict(boxes)
        for point in self.layers.points:
            number = self.layers.labels.get(point)
            label = None if number is None else arcs[number].label
            self.sizes[point] = label or Size(2.0, 0.0)
        self.x = placed(self.layers, self.sizes)
        self.back = sorted(self.layers.back, key=self._span)
        ranks = [(layers.rank[arcs[n].source], layers.rank[arcs[n].target]) for n in self.back]
        self.leave = [[n for n, r in zip(self.back, ranks, strict=True) if r[0] == row]
                      for row in range(len(layers.rows))]  # fmt: skip
        self.come = [[n for n, r in zip(self.back, ranks, strict=True) if r[1] == row]
                     for row in range(len(layers.rows))]  # fmt: skip
        self.tops, self.bottoms = self._rows()

    def layout(self) -> Layout:
        boxes = [name for name in self.sizes if name not in self.layers.points]
        areas = {name: Area(self.x[name], self._middle(name), *self.sizes[name]) for name in boxes}
        wires: dict[int, Wire] = {}
        for number, chain in self.layers.chains.items():
            wires[number] = self._down(number, chain)
        lanes: list[tuple[int, int, int, float]] = []
        for number in self.back:
            wires[number] = self._around(number, lanes)
        return _at_origin(areas, [wires[number] for number in range(len(self.arcs))])

    def _span(self, number: int) -> tuple[int, int]:
        source, target, _ = self.arcs[number]
        return self.layers.rank[source] - self.layers.rank[target], number

    def _rows(self) -> tuple[list[float], list[float]]:
        """Return where each row begins and ends, with room between for what turns there."""
        tops: list[float] = []
        bottoms: list[float] = []
        y = 0.0
        for number, row in enumerate(self.layers.rows):
            y += len(self.come[number]) * TRACK + HEAD
            tops.append(y)
            y += max(self.sizes[each].height for each in row)
            bottoms.append(y)
            y += len(self.leave[number]) * TRACK + BEND
        return tops, bottoms

    def _middle(self, name: str) -> float:
        row = self.layers.rank[name]
        return (self.tops[row] + self.bottoms[row]) / 2

    def _down(self, number: int, chain: Sequence[str]) -> Wire:
        rank, half = self.layers.rank, {each: self.sizes[each].height / 2 for each in chain}
        points: list[Point] = []
        label: Area | None = None
        for each in chain:
            x, row, middle = self.x[each], rank[each], self._middle(each)
            above = self.tops[row] - len(self.come[row]) * TRACK - HEAD
            below = self.bottoms[row] + len(self.leave[row]) * TRACK
            if each == chain[0]:
                points += [Point(x, middle + half[each]), Point(x, below)]
            elif each == chain[-1]:
                points += [Point(x, above), Point(x, middle - half[each])]
            else:
                points += [Point(x, above), Point(x, below)]
            if self.layers.labels.get(each) == number:
                label = Area(x, middle, *self.sizes[each])
        return Wire(tuple(points), label, leads_back=False)

    def _around(self, number: int, lanes: list[tuple[int, int, int, float]]) -> Wire:
        """Return the way back of a line: below its box, up in the nearest free lane, and down."""
        source, target, label = self.arcs[number]
        first, last = self.layers.rank[target], self.layers.rank[source]
        side, x = self._lane(number, lanes)
        width = 0.0 if label is None else label.width
        x += side * width / 2
        lanes.append((side, first, last, x + side * width / 2))
        out, into = self._port(number, source, side), self._port(number, target, side)
        below = self.bottoms[last] + TRACK * (self.leave[last].index(number) + 1)
        above = self.tops[first] - TRACK * (self.come[first].index(number) + 1)
        bottom = self._middle(source) + self.sizes[source].height / 2
        top = self._middle(target) - self.sizes[target].height / 2
        points = (
            Point(out, bottom), Point(out, below), Point(x, below),
            Point(x, above), Point(into, above), Point(into, top),
        )  # fmt: skip
        told = None if label is None else Area(x, (above + below) / 2, *label)
        return Wire(points, told, leads_back=True)

    def _lane(self, number: int, lanes: Sequence[tuple[int, int, int, float]]) -> tuple[int, float]:
        """Return the side on which the way back is shorter, and where a lane is free there."""
        source, target, _ = self.arcs[number]
        first, last = self.layers.rank[target], self.layers.rank[source]
        rows = [each for row in self.layers.rows[first : last + 1] for each in row]
        middle = (self.x[source] + self.x[target]) / 2
        found: list[tuple[float, int, float]] = []
        for side in (1, -1):
            edge = max(side * self.x[each] + self.sizes[each].width / 2 for each in rows)
            taken = [
                side * x
                for other, upper, lower, x in lanes
                if other == side and upper <= last + 1 and lower >= first - 1
            ]
            x = max([edge, *taken]) + LANE
            found.append((x - side * middle, -side, side * x))
        _, side, x = min(found)
        return -side, x

    def _port(self, number: int, box: str, side: int) -> float:
        """Return where on a box a line that leads back leaves or comes, away from its middle."""
        peers = [n for n in self.back if box in self.arcs[n][:2]]
        share = (peers.index(number) + 1) / (len(peers) + 1)
        return self.x[box] + side * self.sizes[box].width / 2 * (1 - share * 0.75)


def _at_origin(areas: Mapping[str, Area], wires: Sequence[Wire]) -> Layout:
    """Move everything so that it begins at the margin, in tenths."""
    labels = [wire.label for wire in wires if wire.label is not None]
    points = [point for wire in wires for point in wire.points]
    edges = [*areas.values(), *labels, *(Area(*point, 4, 4) for point in points)]
    left = min(each.x - each.width / 2 for each in edges) - MARGIN
    top = min(each.y - each.height / 2 for each in edges) - MARGIN
    right = max(each.x + each.width / 2 for each in edges) + MARGIN
    bottom = max(each.y + each.height / 2 for each in edges) + MARGIN

    def moved(area: Area) -> Area:
        return area._replace(x=round(area.x - left, 1), y=round(area.y - top, 1))

    shifted = tuple(
        Wire(
            tuple(Point(round(p.x - left, 1), round(p.y - top, 1)) for p in wire.points),
            None if wire.label is None else moved(wire.label),
            wire.leads_back,
        )
        for wire in wires
    )
    size = Size(round(right - left, 1), round(bottom - top, 1))
    return Layout({name: moved(area) for name, area in areas.items()}, shifted, size)
