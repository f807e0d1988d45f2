"""Isolation: a namespace is a boundary in every key and every query."""

from __future__ import annotations

from holdfast.errors import RunNotFound
from holdfast.model.commands import PruneRuns
from holdfast.model.writes import Filter, Page
from holdfast.testing.conformance.harness import Harness, answer, ids, refused


async def test_one_id_in_two_namespaces_is_two_runs(harness: Harness) -> None:
    here = await harness.start("r", ns="here", input=b"1")
    there = await harness.start("r", ns="there", input=b"2", workflow="x")
    assert (await harness.row("r", "here"), await harness.row("r", "there")) == (here, there)
    assert (await harness.load("r", "here")).events[0].payload == b"1"
    assert (await harness.load("r", "there")).events[0].payload == b"2"


async def test_messages_stay_in_their_namespace(harness: Harness) -> None:
    await harness.start("r", ns="here")
    there = await harness.start("r", ns="there")
    await harness.signal("s1", ns="here")
    await harness.cancel("r", ns="here")
    assert (await harness.load("r", "there")).mail == ()
    assert await harness.row("r", "there") == there
    assert await harness.signal("s1", ns="there")


async def test_a_run_of_another_namespace_is_not_found(harness: Harness) -> None:
    await harness.start("r", ns="here")
    assert await harness.store.load("there", "r") is None
    with refused(RunNotFound):
        await harness.signal("s1", ns="there")
    with refused(RunNotFound):
        await harness.cancel("r", ns="there")
    for what in ("terminate", "pause", "resume", "quarantine"):
        with refused(RunNotFound):
            await harness.move(what, "r", ns="there")


async def test_claims_stay_in_their_namespace(harness: Harness) -> None:
    now = harness.store.now()
    await harness.start("h", ns="here")
    await harness.start("t", ns="there", workflow="x")
    await harness.start("later", ns="there", wake_at=now + 5)
    claimed = await harness.claim(ns="here")
    assert ids(claimed.runs) == ["h"]
    assert (claimed.unregistered, claimed.next_wake_at) == ((), None)


async def test_held_runs_and_mail_are_told_of_one_namespace(harness: Harness) -> None:
    for ns in ("here", "there"):
        await harness.held(f"of {ns}", ns=ns)
        await harness.signal("s1", run=f"of {ns}", ns=ns)
    claimed = await harness.claim(ns="here")
    assert (claimed.mail, claimed.held) == (("of here",), frozenset({"of here"}))


async def test_a_turn_changes_the_run_of_its_namespace_only(harness: Harness) -> None:
    here, there = await harness.held("r", ns="here"), await harness.held("r", ns="there")
    assert await harness.commit(here, answer()) == "applied"
    assert await harness.row("r", "there") == there
    await harness.move("terminate", "r", ns="here")
    assert await harness.row("r", "there") == there


async def test_lists_hold_one_namespace(harness: Harness) -> None:
    await harness.start("r", ns="here")
    await harness.start("r", ns="there")
    await harness.start("x", ns="there")
    assert ids(await harness.store.find(Filter(ns="here"), Page())) == ["r"]
    assert ids(await harness.store.find(Filter(ns="here", ids=("r", "x")), Page())) == ["r"]
    assert await harness.store.find(Filter(), Page()) == []


async def test_pruning_stays_in_its_namespace(harness: Harness) -> None:
    for ns in ("here", "there"):
        await harness.closed("r", ns=ns)
    later = harness.clock.advance()
    assert await harness.send(PruneRuns("here", later)) == 1
    assert await harness.store.load("here", "r") is None
    assert (await harness.row("r", "there")).status == "completed"
    assert (await harness.load("r", "there")).events[-1].kind == "run.completed"


async def test_a_lease_covers_a_process_in_all_namespaces(harness: Harness) -> None:
    await harness.held("r", ns="here", worker="A")
    assert await harness.reap("A", known_dead=True) == 1
    assert ids((await harness.claim("B", ns="here")).runs) == ["r"]
