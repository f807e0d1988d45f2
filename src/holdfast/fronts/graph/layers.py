"""The boxes of a picture in rows, from top to bottom: which row, and in which order in it.

Layered drawing, as Sugiyama and others have it. What leads back up is left out and drawn beside
the rows. A row is as far down as the longest way to it. A line that passes rows has an unseen point
in each, and one with words has a row for these. Each row is sorted by where its neighbours stand,
downwards and upwards in turns; the order with the fewest crossings is kept.

Everything goes by the order in which boxes and lines were given, so the same graph gives the same
picture.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 12


class Size(NamedTuple):
    """How much room something takes."""

    width: float
    height: float


class Arc(NamedTuple):
    """A line to be drawn, and the size of the words on it."""

    source: str
    target: str
    label: Size | None = None


class Layers:
    """Rows of boxes and of unseen points."""

    def __init__(self, boxes: Sequence[str], arcs: Sequence[Arc]) -> None:
        self._boxes, self._arcs = boxes, arcs
        self.back = _leading_back(boxes, arcs)
        self.rank = self._ranked()
        self.labels: dict[str, int] = {}
        """The points that hold the words of a line, by its number."""
        self.chains: dict[int, list[str]] = {}
        """The points of each line that leads down, from box to box, by its number."""
        self.points: set[str] = set()
        self.up: dict[str, list[str]] = {box: [] for box in boxes}
        self.down: dict[str, list[str]] = {box: [] for box in boxes}
        self.rows: list[list[str]] = [[] for _ in range(max(self.rank.values(), default=-1) + 1)]
        for box in boxes:
            self.rows[self.rank[box]].append(box)
        for number, arc in enumerate(arcs):
            if number not in self.back:
                self._lead(number, arc)
        self._sort()

    def _ranked(self) -> dict[str, int]:
        above: dict[str, list[tuple[str, int]]] = {box: [] for box in self._boxes}
        below: dict[str, list[str]] = {box: [] for box in self._boxes}
        for number, (source, target, label) in enumerate(self._arcs):
            if number not in self.back:
                above[target].append((source, 1 if label is None else 2))
                below[source].append(target)
        waiting = {box: len(above[box]) for box in self._boxes}
        ready = [box for box in self._boxes if not waiting[box]]
        rank: dict[str, int] = {}
        for box in ready:
            rank[box] = max((rank[other] + far for other, far in above[box]), default=0)
            for other in below[box]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        return rank

    def _lead(self, number: int, arc: Arc) -> None:
        """Put a point of a line into each row that it passes."""
        chain = [arc.source]
        first = self.rank[arc.source] + 1
        for row in range(first, self.rank[arc.target]):
            point = f"\0{number}.{row}"
            self.points.add(point)
            self.rank[point] = row
            self.rows[row].append(point)
            self.up[point], self.down[point] = [], []
            if row == first and arc.label is not None:
                self.labels[point] = number
            chain.append(point)
        chain.append(arc.target)
        self.chains[number] = chain
        for upper, lower in pairwise(chain):
            self.down[upper].append(lower)
            self.up[lower].append(upper)

    def _sort(self) -> None:
        best, fewest = [[*row] for row in self.rows], self._crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            self._sweep(is_down=sweep % 2 == 0)
            found = self._crossings()
            if found < fewest:
                best, fewest = [[*row] for row in self.rows], found
        self.rows = best

    def _sweep(self, *, is_down: bool) -> None:
        count = len(self.rows)
        order = range(1, count) if is_down else range(count - 2, -1, -1)
        near = self.up if is_down else self.down
        for number in order:
            beside = self.rows[number - 1 if is_down else number + 1]
            places = {each: place for place, each in enumerate(beside)}
            row = self.rows[number]
            wanted = {
                each: _median(sorted(places[other] for other in near[each]), place)
                for place, each in enumerate(row)
            }
            row.sort(key=wanted.__getitem__)

    def _crossings(self) -> int:
        found = 0
        for upper, lower in pairwise(self.rows):
            places = {each: place for place, each in enumerate(lower)}
            seen: list[int] = []
            for each in upper:
                for place in sorted(places[other] for other in self.down[each]):
                    spot = bisect_right(seen, place)
                    found += len(seen) - spot
                    seen.insert(spot, place)
        return found


def _median(places: Sequence[int], fallback: float) -> float:
    if not places:
        return fallback
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2


def _leading_back(boxes: Sequence[str], arcs: Sequence[Arc]) -> frozenset[int]:
    """Return the lines that lead back to where a way came from, found in the given order."""
    out: dict[str, list[tuple[str, int]]] = {box: [] for box in boxes}
    for number, arc in enumerate(arcs):
        out[arc.source].append((arc.target, number))
    found: set[int] = set()
    seen: set[str] = set()
    for root in boxes:
        if root not in seen:
            _search(root, out, seen, found)
    return frozenset(found)


def _search(
    root: str, out: Mapping[str, Sequence[tuple[str, int]]], seen: set[str], found: set[int]
) -> None:
    path, is_open = [(root, iter(out[root]))], {root}
    seen.add(root)
    while path:
        box, ways = path[-1]
        for target, number in ways:
            if target in is_open:
                found.add(number)
            elif target not in seen:
                seen.add(target)
                is_open.add(target)
                path.append((target, iter(out[target])))
                break
        else:
            is_open.discard(box)
            path.pop()
