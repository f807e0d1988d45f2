"""Claims: who gets which run, and what a look at the queue tells."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.model.status import RUN_MOVES
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event, ids


async def suspect(harness: Harness, id: str) -> None:
    """Make a run that two workers died of."""
    await harness.held(id, worker=f"victim 1 of {id}")
    await harness.reap(f"victim 1 of {id}", known_dead=True)
    await harness.claim(f"victim 2 of {id}")
    await harness.reap(f"victim 2 of {id}", known_dead=True)
    assert (await harness.row(id)).strikes == 2


async def test_the_run_that_waited_longest_comes_first(harness: Harness) -> None:
    now = harness.store.now()
    for id, wait in (("c", 1), ("b", 3), ("a", 3), ("d", 2)):
        await harness.start(id, wake_at=now + wait)
    harness.clock.advance()
    assert ids((await harness.claim()).runs) == ["c", "d", "a", "b"]


async def test_a_claim_takes_no_more_than_its_limit(harness: Harness) -> None:
    for id in ("a", "b", "c"):
        await harness.start(id)
    assert (await harness.claim(limit=0)).runs == ()
    assert ids((await harness.claim(limit=2)).runs) == ["a", "b"]
    assert ids((await harness.claim(limit=2)).runs) == ["c"]


async def test_a_claimed_run_is_held_under_a_new_epoch(harness: Harness) -> None:
    started = await harness.start("r")
    at = harness.clock.advance()
    [run] = (await harness.claim("A")).runs
    assert (run.status, run.owner, run.epoch, run.seq) == ("running", "A", started.epoch + 1, 1)
    assert (run.updated_at, run.created_at) == (at, started.created_at)
    assert await harness.row("r") == run
    assert await harness.commit(run, answer()) == "applied"


async def test_what_a_run_waited_for_is_forgotten_when_it_is_claimed(harness: Harness) -> None:
    await harness.park(await harness.held("r"), wake_at=harness.store.now())
    [run] = (await harness.claim("B")).runs
    assert (run.reason, run.wake_at) == ("", None)


async def test_a_held_run_is_nobody_elses(harness: Harness) -> None:
    await harness.start("r")
    assert ids((await harness.claim("A")).runs) == ["r"]
    assert (await harness.claim("B")).runs == ()
    assert (await harness.claim("A")).runs == ()


async def test_claims_at_the_same_time_never_share_a_run(harness: Harness) -> None:
    for n in range(30):
        await harness.start(f"r{n:02}")
    claims = await asyncio.gather(*(harness.claim(f"W{n}", limit=5) for n in range(10)))
    taken = [run.id for claimed in claims for run in claimed.runs]
    assert sorted(taken) == [f"r{n:02}" for n in range(30)]


async def test_only_pending_and_waiting_runs_are_claimed(harness: Harness) -> None:
    for status in RUN_MOVES:
        await harness.in_status(status, id=status)
    assert ids((await harness.claim("B")).runs) == ["pending"]


async def test_only_known_workflows_are_claimed(harness: Harness) -> None:
    await harness.start("mine", workflow="w")
    await harness.start("other", workflow="x")
    claimed = await harness.claim(workflows=("w", "y"))
    assert (ids(claimed.runs), claimed.unregistered) == (["mine"], ("x/1",))
    assert ids((await harness.claim(workflows=("x",))).runs) == ["other"]


async def test_unregistered_workflows_are_named_once_and_sorted(harness: Harness) -> None:
    for id, workflow in (("a", "z"), ("b", "y"), ("c", "z"), ("d", "w")):
        await harness.start(id, workflow=workflow)
    await harness.start("later", workflow="x", wake_at=harness.store.now() + SECOND)
    claimed = await harness.claim(limit=0, workflows=("w",))
    assert (claimed.runs, claimed.unregistered) == ((), ("y/1", "z/1"))


async def test_a_worker_without_workflows_claims_nothing(harness: Harness) -> None:
    await harness.start("r")
    claimed = await harness.claim(workflows=())
    assert (claimed.runs, claimed.unregistered) == ((), ("w/1",))


async def test_the_next_wake_up_is_told(harness: Harness) -> None:
    now = harness.store.now()
    assert (await harness.claim()).next_wake_at is None
    await harness.start("soon", wake_at=now + 2)
    await harness.start("later", wake_at=now + 5)
    await harness.start("not mine", wake_at=now + 1, workflow="x")
    await harness.start("now")
    claimed = await harness.claim()
    assert (ids(claimed.runs), claimed.next_wake_at) == (["now"], now + 2)


async def test_a_run_that_waits_for_a_message_has_no_next_wake_up(harness: Harness) -> None:
    await harness.park(await harness.held("r"))
    assert (await harness.claim("B")).next_wake_at is None


async def test_a_claim_tells_which_held_runs_have_mail(harness: Harness) -> None:
    for id in ("quiet", "loud"):
        await harness.held(id, worker="A")
    await harness.held("other", worker="B")
    for id in ("loud", "other"):
        await harness.signal("s1", run=id)
    claimed = await harness.claim("A")
    assert claimed.mail == ("loud",)
    run = await harness.row("loud")
    await harness.commit(run, event("signal.received", "go/s1"), inbox_read=1)
    assert (await harness.claim("A")).mail == ()


async def test_a_claim_tells_what_the_worker_holds(harness: Harness) -> None:
    await harness.held("old", worker="A")
    await harness.held("other", worker="B")
    await harness.start("new")
    claimed = await harness.claim("A")
    assert (ids(claimed.runs), claimed.held) == (["new"], frozenset({"old", "new"}))
    await harness.move("terminate", "old")
    assert (await harness.claim("A")).held == frozenset({"new"})


async def test_a_claim_renews_the_lease(harness: Harness) -> None:
    await harness.start("r")
    await harness.claim("A")
    harness.clock.advance(LEASE - 1)
    assert (await harness.claim("B")).dead == ()
    assert await harness.reap("A") == 0
    harness.clock.advance(1)
    assert (await harness.claim("B")).dead == (("A", False),)


async def test_a_worker_takes_at_most_its_share_of_suspects(harness: Harness) -> None:
    for id in ("s1", "s2", "s3"):
        await suspect(harness, id)
    assert ids((await harness.claim(suspects=0)).runs) == []
    assert ids((await harness.claim(suspects=1)).runs) == ["s1"]
    assert ids((await harness.claim(suspects=2)).runs) == ["s2", "s3"]


async def test_suspects_do_not_crowd_out_the_others(harness: Harness) -> None:
    for id in ("s1", "s2", "s3"):
        await suspect(harness, id)
    harness.clock.advance()
    for id in ("a", "b"):
        await harness.start(id)
    assert ids((await harness.claim(limit=2, suspects=1)).runs) == ["s1", "a"]
    assert ids((await harness.claim(limit=2, suspects=0)).runs) == ["b"]


async def test_one_strike_makes_no_suspect(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    assert ids((await harness.claim("B", suspects=0)).runs) == ["r"]


async def test_a_hint_gives_nobody_a_run_that_is_not_theirs(harness: Harness) -> None:
    """Whatever is named, only what could be claimed without a hint is taken."""
    await harness.claim()  # a look, before which some stores take no hints
    now = harness.store.now()
    await harness.start("later", wake_at=now + SECOND)
    await harness.start("unknown", workflow="other")
    await harness.start("elsewhere", queue="slow")
    await harness.start("foreign", ns="other")
    await harness.held("held", worker="B")
    await harness.closed("closed", worker="B")
    await suspect(harness, "suspect")
    hints = ("later", "unknown", "elsewhere", "foreign", "held", "closed", "nobody")
    served: dict[str, Any] = {"queues": ("default",), "eager": True}
    assert (await harness.claim(hints=hints, **served, suspects=0)).runs == ()
    claimed = await harness.claim(hints=(*hints, "suspect"), **served, suspects=0)
    assert claimed.runs == ()
    harness.clock.advance()
    assert "later" in ids((await harness.claim(hints=("later",), **served)).runs)


async def test_a_run_that_a_hint_names_is_claimed_as_any_other(harness: Harness) -> None:
    await harness.claim()
    started = await harness.start("r")
    at = harness.clock.advance()
    claimed = await harness.claim("A", hints=("r",), eager=True)
    [run] = claimed.runs
    assert (run.status, run.owner, run.epoch, run.seq) == ("running", "A", started.epoch + 1, 1)
    assert (run.updated_at, run.reason, run.wake_at) == (at, "", None)
    assert await harness.row("r") == run
    assert [event.kind for event in claimed.first_events.values()] == ["run.started"]
    assert (await harness.claim("B", hints=("r",), eager=True)).runs == ()
    assert (await harness.claim("B")).dead == (), "its lease was renewed"
    assert await harness.commit(run, answer()) == "applied"


async def test_what_no_hint_names_is_claimed_all_the_same(harness: Harness) -> None:
    await harness.claim()
    for id in ("a", "b"):
        await harness.start(id)
    taken = ids((await harness.claim(hints=("b",), eager=True)).runs)
    taken += ids((await harness.claim()).runs)
    assert sorted(taken) == ["a", "b"]
    await harness.start("c")
    assert ids((await harness.claim(hints=("nobody",), eager=True)).runs) == ["c"]


async def test_who_has_no_room_takes_nothing_that_a_hint_names(harness: Harness) -> None:
    """And as nothing was taken, there is no lease."""
    await harness.claim()
    await harness.start("r")
    claimed = await harness.claim("A", hints=("r",), eager=True, limit=0)
    assert claimed.runs == ()
    harness.clock.advance(2 * LEASE)
    assert (await harness.claim("B")).dead == ()
    assert (await harness.row("r")).status == "running"


async def test_a_lease_outlives_a_run_that_a_hint_named(harness: Harness) -> None:
    """Also if it was not renewed for it, because it was nearly new."""
    await harness.claim()
    for n in range(1, 4):
        await harness.start(f"r{n}")
        claimed = await harness.claim("A", hints=(f"r{n}",), eager=True)
        assert ids(claimed.runs) == [f"r{n}"]
        harness.clock.advance(LEASE // 12)
    harness.clock.advance(LEASE // 2)
    assert (await harness.claim("B")).dead == ()
    harness.clock.advance(LEASE // 2)
    assert (await harness.claim("B")).dead == (("A", False),)
