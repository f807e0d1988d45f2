"""What runs of graphs tell is the same on three stores; the sweep holds it against every crash."""

import pytest

from holdfast.testing.crash_sweep import Kind, run
from tests.crash.graph_streams import GRAPH_STREAMS, golden, lines, stream_wrong


def test_a_stream_is_golden(store: Kind) -> None:
    worlds = {each.name.removeprefix("stream-"): run(each, store) for each in GRAPH_STREAMS}
    told = {name: lines(world, name) for name, world in worlds.items()}
    assert told == {name: golden(name) for name in worlds}


def test_a_stream_that_lacks_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = run(GRAPH_STREAMS[0], "memory")
    assert stream_wrong(world) == []
    monkeypatch.setattr("tests.crash.graph_streams.golden", lambda name: golden(name)[:-1])
    assert len(stream_wrong(world)) == 1
