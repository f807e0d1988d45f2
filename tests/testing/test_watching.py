"""The watcher complains of what changed between two looks, and of nothing else."""

import asyncio
from typing import Any

import pytest

from holdfast.model.dump import Dump
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.stores.memory import MemoryStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer
from holdfast.testing.watching import Watcher


@pytest.fixture
def held() -> Dump:
    """A store with one run that is held, and has a recorded step."""
    return asyncio.run(kept())


async def kept() -> Dump:
    async with Harness(lambda clock: MemoryStore(clock=clock)) as harness:
        await harness.commit(await harness.held("r", worker="A"), answer("a#1"))
        assert isinstance(harness.store, MemoryStore)
        return await harness.store.dump()


def changed(dump: Dump, event: Event) -> Dump:
    return dump._replace(events={("default", "r"): (dump.events["default", "r"][0], event)})


def with_run(dump: Dump, run: Run) -> Dump:
    return dump._replace(runs=(run,))


def complaints(*dumps: Dump) -> list[str]:
    watcher = Watcher()
    for dump in dumps:
        watcher.see(dump)
    return [each.invariant for each in watcher.violations]


def test_a_run_that_goes_on_is_none(held: Dump) -> None:
    [run], event = held.runs, held.events["default", "r"][1]
    taken = with_run(held, run._replace(owner="B", epoch=run.epoch + 1))
    ended = with_run(held, run._replace(owner=None, status="completed"))
    assert complaints(held, held, changed(held, event._replace(superseded_by=3)), taken) == []
    assert complaints(held, ended) == []


@pytest.mark.parametrize(
    "change", [{"payload": b"2"}, {"at": 1}, {"key": "b#1"}, {"epoch": 9}, {"digest": b"other"}]
)
def test_an_event_that_changes_is_one(held: Dump, change: dict[str, Any]) -> None:
    event = held.events["default", "r"][1]
    assert complaints(held, changed(held, event._replace(**change))) == ["I1"]


def test_a_second_owner_of_an_epoch_is_one(held: Dump) -> None:
    [run] = held.runs
    assert complaints(held, with_run(held, run._replace(owner="B"))) == ["I2"]


def test_another_run_of_the_same_id_is_none(held: Dump) -> None:
    [run], event = held.runs, held.events["default", "r"][1]
    born = with_run(changed(held, event._replace(payload=b"2")), run._replace(created_at=1))
    assert complaints(held, with_run(born, born.runs[0]._replace(owner="B"))) == []
