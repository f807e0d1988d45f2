"""Pictures of graphs: nothing overlaps, everything is inside, and the same graph gives the same."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.fronts.graph.layers import Arc, Size
from holdfast.fronts.graph.layout import Area, Layout, Point, laid_out
from holdfast.fronts.graph.scene import Box, Line, Scene, scene_of
from holdfast.fronts.graph.svg import drawn, short, svg
from holdfast.fronts.graph.text import text
from tests.fronts.graph.gallery import FORMS, GRAPHS, PICTURES, pictures

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", [f"{name}.{form}" for name in GRAPHS for form in FORMS])
def test_a_picture_is_as_it_was(path: str) -> None:
    found = {each.name: text for each, text in pictures()}
    assert found[path] == (PICTURES / path).read_text("utf-8")


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=50)
sizes = st.builds(Size, st.floats(6, 300), st.floats(6, 200))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Size], list[Arc]]:
    boxes = {f"b{n}": draw(sizes) for n in range(draw(st.integers(1, 14)))}
    ends = st.sampled_from(sorted(boxes))
    labels = st.none() | st.builds(Size, st.floats(10, 200), st.just(16.0))
    arcs = draw(st.lists(st.builds(Arc, ends, ends, labels), max_size=30))
    return boxes, arcs


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_nothing_overlaps_and_all_is_inside_and_the_same_again(
    graph: tuple[dict[str, Size], list[Arc]],
) -> None:
    boxes, arcs = graph
    layout = laid_out(boxes, arcs)
    assert layout == laid_out(dict(boxes), list(arcs))
    areas = [*layout.boxes.values(), *(w.label for w in layout.wires if w.label is not None)]
    assert not [pair for pair in combinations(map(_slim, areas), 2) if pair[0].overlaps(pair[1])]
    for area in areas:
        assert _is_inside(area, layout)
    for wire in layout.wires:
        for part in pairwise(wire.points):
            assert not any(_slim(box).overlaps(_along(*part)) for box in layout.boxes.values())
            assert all(_is_inside(Area(*point, 0, 0), layout) for point in part)


def _slim(area: Area) -> Area:
    """Return an area without what rounding to tenths may have added."""
    return area._replace(width=area.width - 0.4, height=area.height - 0.4)


def _along(first: Point, second: Point) -> Area:
    middle = ((first.x + second.x) / 2, (first.y + second.y) / 2)
    return Area(*middle, abs(first.x - second.x) + 0.1, abs(first.y - second.y) + 0.1)


def _is_inside(area: Area, layout: Layout) -> bool:
    x, y, width, height = area
    across = width / 2 <= x <= layout.size.width - width / 2
    return across and height / 2 <= y <= layout.size.height - height / 2


@given(st.lists(names, min_size=1, max_size=5, unique=True), st.data())
@settings(deadline=None, max_examples=25)
def test_any_names_give_a_picture_that_can_be_read(named: list[str], data: st.DataObject) -> None:
    ends = st.sampled_from(named)
    lines = data.draw(st.lists(st.builds(Line, ends, ends, names), max_size=6))
    boxes = tuple(Box(name, name, "step") for name in named)
    scene = Scene("any", boxes, tuple(lines))
    words = [each.text or "" for each in Tree.fromstring(svg(scene)).iter(f"{SVG}text")]
    assert sorted(words) == sorted([*map(short, named), *(short(line.told) for line in lines
                                                          if line.told)])  # fmt: skip
    assert all(line == line.rstrip() for line in text(scene).splitlines())


def test_words_are_never_wider_than_their_box() -> None:
    for make in GRAPHS.values():
        tree = Tree.fromstring(make().svg())
        width = float(tree.get("width") or 0)
        for each in tree.iter(f"{SVG}text"):
            assert float(each.get("textLength") or 0) < width


def test_branches_end_at_the_bar_of_their_own_fork() -> None:
    lines = {(line.source, line.target) for line in scene_of(GRAPHS["forks"]().blueprint).lines}
    assert {("a1", "join a"), ("a2", "join a"), ("join a", "meet"), ("meet", "join begin")} <= lines
    assert {("c", "join begin"), ("again", "join begin"), ("join begin", "inner")} <= lines
    assert not any(target == "END" and source in "abc" for source, target in lines)


def test_a_graph_in_a_graph_is_drawn_inside_its_box() -> None:
    drawing = drawn(scene_of(GRAPHS["forks"]().blueprint))
    inner, box = drawing.inner["inner"], drawing.layout.boxes["inner"]
    assert (inner.size.width, inner.size.height) <= (box.width, box.height)


def test_lanes_of_a_text_go_on_from_line_to_line() -> None:
    for above, below in pairwise(GRAPHS["large"]().text().splitlines()):
        width = max(len(above), len(below))
        upper, lower = above.ljust(width)[1:], below.ljust(width)[1:]
        assert [c in "│┐┤┬┼" for c in upper] == [c in "│┘┤┴┼" for c in lower]


def _sources() -> Iterator[Path]:
    yield from sorted(PICTURES.iterdir())


def test_every_picture_is_one_of_ours() -> None:
    assert {path.name for path in _sources()} == {path.name for path, _ in pictures()}


def test_a_thousand_boxes_are_laid_out() -> None:
    boxes = {f"n{n}": Size(80, 36) for n in range(1_000)}
    arcs: Sequence[Arc] = [Arc(f"n{n // 2}", f"n{n}") for n in range(1, 1_000)]
    assert len(laid_out(boxes, arcs).boxes) == 1_000
