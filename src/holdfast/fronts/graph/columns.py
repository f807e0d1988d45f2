"""Where the boxes of each row stand from left to right, so that lines are as straight as can be.

The way of Brandes and Köpf: everything is put above the middle one of its neighbours where it can
be, which gives columns; the columns are pushed together. That is done from above and from below,
to the left and to the right, and the mean of the two middle results of the four is taken. Points of
one line come first, so that long lines are straight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from holdfast.fronts.graph.layers import Layers, Size

BETWEEN = 28.0
"""Between two boxes of a row."""
NARROW = 16.0
"""Between two lines of a row."""

Places = dict[str, float]


def placed(layers: Layers, sizes: Mapping[str, Size]) -> Places:
    """Return the x of everything. No two of a row overlap."""
    refused = _refused(layers)
    found: list[tuple[bool, Places]] = []
    for near, rows in ((layers.up, layers.rows), (layers.down, layers.rows[::-1])):
        for is_left in (True, False):
            sides = rows if is_left else [row[::-1] for row in rows]
            places = _compact(sides, _columns(sides, near, refused), layers, sizes)
            found.append((is_left, places if is_left else {k: -x for k, x in places.items()}))
    return _middle(found)


def _middle(found: Sequence[tuple[bool, Places]]) -> Places:
    """Lay the results over the narrowest, and return the mean of the middle two."""
    narrowest = min(
        (places for _, places in found), key=lambda p: max(p.values()) - min(p.values())
    )
    low, high = min(narrowest.values()), max(narrowest.values())
    moved: list[Places] = []
    for is_left, places in found:
        shift = low - min(places.values()) if is_left else high - max(places.values())
        moved.append({each: x + shift for each, x in places.items()})
    sorted_ = {each: sorted(places[each] for places in moved) for each in narrowest}
    return {each: (xs[1] + xs[2]) / 2 for each, xs in sorted_.items()}


def _refused(layers: Layers) -> frozenset[tuple[str, str]]:
    """Return the links that cross a line between two of its points: they may be bent."""
    found: set[tuple[str, str]] = set()
    for upper, lower in pairwise(layers.rows):
        below = {each: place for place, each in enumerate(lower)}
        links = [
            (place, below[other], each, other)
            for place, each in enumerate(upper)
            for other in layers.down[each]
        ]
        inner = [k for k in links if k[2] in layers.points and k[3] in layers.points]
        kept = {(each, other) for _, _, each, other in inner}
        for top, bottom, each, other in links:
            crosses = ((top - t) * (bottom - b) < 0 for t, b, _, _ in inner)
            if (each, other) not in kept and any(crosses):
                found |= {(each, other), (other, each)}
    return frozenset(found)


def _columns(
    rows: Sequence[Sequence[str]],
    near: Mapping[str, Sequence[str]],
    refused: frozenset[tuple[str, str]],
) -> dict[str, str]:
    """Return the first of the column of each."""
    column = {each: each for row in rows for each in row}
    has_next: set[str] = set()
    for before, row in pairwise(rows):
        places = {each: place for place, each in enumerate(before)}
        last = -1
        for each in row:
            others = sorted(near[each], key=places.__getitem__)
            half = (len(others) - 1) / 2
            for other in others[int(half) : int(half + 0.5) + 1]:
                is_free = other not in has_next and places[other] > last
                if column[each] == each and is_free and (other, each) not in refused:
                    column[each] = column[other]
                    has_next.add(other)
                    last = places[other]
    return column


def _compact(
    rows: Sequence[Sequence[str]],
    column: Mapping[str, str],
    layers: Layers,
    sizes: Mapping[str, Size],
) -> Places:
    """Push the columns to the left as far as they go, then each to the right of it where it can."""
    after: dict[str, list[tuple[str, float]]] = {first: [] for first in column.values()}
    waiting = dict.fromkeys(after, 0)
    for row in rows:
        for left, right in pairwise(row):
            gap = NARROW if left in layers.points and right in layers.points else BETWEEN
            room = (sizes[left].width + sizes[right].width) / 2 + gap
            after[column[left]].append((column[right], room))
            waiting[column[right]] += 1
    order = [first for first, count in waiting.items() if not count]
    x = dict.fromkeys(after, 0.0)
    for first in order:
        for other, room in after[first]:
            x[other] = max(x[other], x[first] + room)
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for first in reversed(order):
        if after[first]:
            x[first] = max(x[first], min(x[other] - room for other, room in after[first]))
    return {each: x[first] for each, first in column.items()}
