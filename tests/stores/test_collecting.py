"""The pause of the garbage collector: a block, and then all is as it was."""

import gc
from collections.abc import Iterator

import pytest

from holdfast.stores import collecting


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_inside_and_then_again() -> None:
    gc.enable()
    with collecting.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with collecting.paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    gc.enable()
    with pytest.raises(ZeroDivisionError), collecting.paused():
        _ = 1 / 0
    assert gc.isenabled()
