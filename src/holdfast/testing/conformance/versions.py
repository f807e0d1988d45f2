"""Versions: which runs a claim takes, and what is kept of the code that ran."""

from __future__ import annotations

from typing import Any

from holdfast.model.commands import DefineWorkflow
from holdfast.model.definitions import Definition
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, ids

STARTED = (("none", ""), ("one", "1"), ("two", "2"))


async def start_all(harness: Harness) -> None:
    """Start a run of each version."""
    for id, version in STARTED:
        await harness.start(id, version=version)


async def test_a_name_alone_stands_for_every_version(harness: Harness) -> None:
    await start_all(harness)
    claimed = await harness.claim(workflows=("w",))
    assert (ids(claimed.runs), claimed.unregistered) == (["none", "one", "two"], ())


async def test_a_name_with_a_version_stands_for_that_version(harness: Harness) -> None:
    await start_all(harness)
    claimed = await harness.claim(workflows=("w/2",))
    assert (ids(claimed.runs), claimed.unregistered) == (["two"], ("w", "w/1"))


async def test_a_name_with_no_version_stands_for_runs_without_one(harness: Harness) -> None:
    await start_all(harness)
    claimed = await harness.claim(workflows=("w/", "w/1"))
    assert (ids(claimed.runs), claimed.unregistered) == (["none", "one"], ("w/2",))


async def test_the_next_wake_up_is_that_of_a_version_the_worker_knows(harness: Harness) -> None:
    now = harness.store.now()
    await harness.start("soon", version="1", wake_at=now + SECOND)
    await harness.start("later", version="2", wake_at=now + 2 * SECOND)
    assert (await harness.claim(workflows=("w/2",))).next_wake_at == now + 2 * SECOND
    assert (await harness.claim(workflows=("w/3",))).next_wake_at is None


async def test_a_second_start_finds_the_run_whatever_the_version(harness: Harness) -> None:
    first = await harness.start("r", version="1", shape=b"first")
    assert await harness.start("r", version="2", shape=b"second") == first
    [event] = (await harness.load("r")).events
    assert event.digest == b"first"


async def definitions(harness: Harness) -> tuple[Definition, ...] | None:
    """Return what the store keeps of the code, if it can give all it holds."""
    dump: Any = getattr(harness.store, "dump", None)
    return None if dump is None else (await dump()).definitions


async def test_a_shape_is_kept_once_with_when_it_was_seen(harness: Harness) -> None:
    begun = harness.store.now()
    for shape in (b"a", b"b", b"a"):
        await harness.send(DefineWorkflow("default", "w", "1", shape))
        harness.clock.advance(SECOND)
    await harness.send(DefineWorkflow("other", "w", "1", b"a"))
    kept = await definitions(harness)
    if kept is not None:
        assert kept == (
            Definition("default", "w", "1", b"a", begun, begun + 2 * SECOND),
            Definition("default", "w", "1", b"b", begun + SECOND, begun + SECOND),
            Definition("other", "w", "1", b"a", begun + 3 * SECOND, begun + 3 * SECOND),
        )


async def test_a_start_keeps_its_shape_only_if_the_run_is_new(harness: Harness) -> None:
    await harness.start("r", shape=b"a", defines=True)
    kept = await definitions(harness)
    harness.clock.advance()
    await harness.start("r", shape=b"a", defines=True)
    await harness.start("r", shape=b"b", defines=True)
    await harness.start("other", shape=b"b")
    assert await definitions(harness) == kept
    assert kept is None or [each.shape for each in kept] == [b"a"]


async def test_a_retry_tells_its_reason(harness: Harness) -> None:
    await harness.in_status("blocked")
    await harness.retry(reason="mended")
    last = (await harness.load()).events[-1]
    assert (last.kind, last.payload) == ("run.resumed", b'{"reason": "mended"}')
