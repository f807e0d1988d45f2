"""Leases: one a worker, by the store's clock. The dead lose their runs, the living never do."""

from __future__ import annotations

from holdfast.errors import IllegalMove
from holdfast.model.commands import QuarantineRun, RetireWorker
from holdfast.model.run import Run
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event, ids, refused


async def test_a_fresh_lease_is_told_from_a_renewed_one(harness: Harness) -> None:
    assert not await harness.renew("A")
    assert await harness.renew("A")
    assert await harness.renew("A")


async def test_an_expired_lease_is_reported_and_reaped(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    now = harness.clock.advance(LEASE)
    assert (await harness.claim("B", limit=0)).dead == (("A", False),)
    assert await harness.reap("A") == 1
    freed = await harness.row("r")
    assert (freed.status, freed.owner, freed.wake_at) == ("waiting", None, now)
    assert (freed.epoch, freed.seq, freed.strikes) == (run.epoch, run.seq, 1)
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_living_worker_is_not_reaped(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    harness.clock.advance(LEASE - 1)
    assert (await harness.claim("B")).dead == ()
    assert await harness.reap("A") == 0
    assert await harness.row("r") == run


async def test_renewal_keeps_a_worker_from_being_reaped(harness: Harness) -> None:
    await harness.held("r", worker="A")
    for _ in range(4):
        harness.clock.advance(LEASE - 1)
        assert await harness.reap("A") == 0
        assert await harness.renew("A")
    assert (await harness.row("r")).owner == "A"


async def test_a_renewal_that_is_repeated_changes_nothing(harness: Harness) -> None:
    await harness.held("r", worker="A")
    assert await harness.renew("A")
    assert await harness.renew("A")
    harness.clock.advance(LEASE - 1)
    assert await harness.reap("A") == 0
    harness.clock.advance(1)
    assert await harness.reap("A") == 1


async def test_a_shorter_renewal_does_not_shorten_the_lease(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.renew("A", lease=SECOND)
    harness.clock.advance(2 * SECOND)
    assert await harness.reap("A") == 0


async def test_a_renewal_saves_nobody_else(harness: Harness) -> None:
    await harness.held("r", worker="A")
    harness.clock.advance(LEASE)
    await harness.renew("B")
    assert await harness.reap("A") == 1


async def test_a_known_death_does_not_wait_for_the_lease(harness: Harness) -> None:
    await harness.held("r", worker="A")
    assert await harness.reap("A", known_dead=True) == 1
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_reaping_takes_every_run_of_that_worker_and_no_other(harness: Harness) -> None:
    for id in ("a1", "a2"):
        await harness.held(id, worker="A")
    other = await harness.held("b1", worker="B")
    await harness.held("c", worker="A", ns="elsewhere")
    assert await harness.reap("A", known_dead=True) == 3
    assert await harness.row("b1") == other
    assert (await harness.row("c", "elsewhere")).owner is None


async def test_reaping_leaves_what_the_worker_let_go(harness: Harness) -> None:
    parked = await harness.park(await harness.held("parked", worker="A"))
    closed = await harness.closed("closed", worker="A")
    assert await harness.reap("A", known_dead=True) == 0
    assert (await harness.row("parked"), await harness.row("closed")) == (parked, closed)


async def test_reaping_twice_counts_one_strike(harness: Harness) -> None:
    await harness.held("r", worker="A")
    assert await harness.reap("A", known_dead=True) == 1
    assert await harness.reap("A", known_dead=True) == 0
    assert (await harness.row("r")).strikes == 1


async def test_each_worker_a_run_kills_counts(harness: Harness) -> None:
    await harness.start("r")
    for strikes in range(1, 6):
        assert ids((await harness.claim(f"W{strikes}")).runs) == ["r"]
        await harness.reap(f"W{strikes}", known_dead=True)
        assert (await harness.row("r")).strikes == strikes


async def test_a_late_worker_whom_nobody_replaced_may_commit(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    harness.clock.advance(2 * LEASE)
    assert await harness.commit(run, answer()) == "applied"


async def test_a_reaped_worker_learns_that_its_lease_began_anew(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    assert not await harness.renew("A")
    assert await harness.commit(run, answer()) == "lost"
    assert (await harness.claim("A", limit=0)).held == frozenset()


async def test_an_owner_without_a_lease_is_dead(harness: Harness) -> None:
    await harness.send(harness.starting("r", owner="nobody"))
    assert (await harness.claim("B", limit=0)).dead == (("nobody", False),)
    assert await harness.reap("nobody") == 1
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_all_dead_owners_are_reported(harness: Harness) -> None:
    for worker in ("C", "A", "E"):
        for n in range(3):
            await harness.held(f"{worker}{n}", worker=worker)
    for n in range(3):
        await harness.send(harness.starting(f"D{n}", owner="D"))
    harness.clock.advance(LEASE)
    await harness.held("living", worker="B")
    dead = (await harness.claim("F", limit=0)).dead
    assert sorted(dead) == [("A", False), ("C", False), ("D", False), ("E", False)]


async def test_a_worker_does_not_report_itself(harness: Harness) -> None:
    await harness.held("r", worker="A")
    harness.clock.advance(2 * LEASE)
    assert (await harness.claim("A", limit=0)).dead == ()


async def test_a_worker_that_holds_nothing_is_not_missed(harness: Harness) -> None:
    await harness.renew("A")
    await harness.park(await harness.held("r", worker="A"))
    harness.clock.advance(2 * LEASE)
    assert (await harness.claim("B", limit=0)).dead == ()


async def test_a_worker_that_holds_a_run_does_not_retire(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    assert not await harness.send(RetireWorker("A"))
    assert await harness.renew("A")
    await harness.park(run)
    assert await harness.send(RetireWorker("A"))
    assert not await harness.renew("A")


async def test_retiring_an_unknown_worker_is_harmless(harness: Harness) -> None:
    assert await harness.send(RetireWorker("nobody"))
    assert await harness.reap("nobody") == 0


async def test_the_clock_never_goes_back(harness: Harness) -> None:
    latest = harness.store.now()
    for step in (5, -3, 0, 2, -10, 100):
        harness.clock.advance(step * SECOND)
        assert harness.store.now() >= latest
        latest = harness.store.now()


async def test_a_clock_set_back_makes_no_lease_longer(harness: Harness) -> None:
    await harness.held("r", worker="A")
    harness.clock.advance(LEASE)
    assert (await harness.claim("B", limit=0)).dead == (("A", False),)
    harness.clock.advance(-LEASE)
    assert (await harness.claim("B", limit=0)).dead == (("A", False),)
    assert await harness.reap("A") == 1


async def struck(harness: Harness, times: int, id: str = "r") -> Run:
    """Start a run and lose it with its worker so many times."""
    await harness.start(id)
    for n in range(times):
        await harness.claim(f"dead {n}")
        await harness.reap(f"dead {n}", known_dead=True)
    return await harness.row(id)


async def test_a_reaped_run_says_who_is_gone(harness: Harness) -> None:
    run = await struck(harness, 1)
    assert (run.strikes, run.reason) == (1, "worker dead 0 is gone")


async def test_a_run_with_too_many_strikes_is_named_and_not_taken(harness: Harness) -> None:
    convict = await struck(harness, 3)
    await harness.start("innocent")
    found = await harness.claim("B", strikes=3)
    assert (ids(found.runs), found.convicts) == (["innocent"], (convict,))
    assert await harness.row("r") == convict
    assert ids((await harness.claim("B", strikes=4)).runs) == ["r"]


async def test_convicts_do_not_use_up_the_place_of_a_suspect(harness: Harness) -> None:
    await struck(harness, 3, id="a")
    first = await harness.claim("B", strikes=3)
    assert ids(first.convicts) == ["a"]
    await harness.start("b")
    found = await harness.claim("B", strikes=3, suspects=1)
    assert (ids(found.runs), ids(found.convicts)) == (["b"], ["a"])


async def test_a_verdict_is_void_when_the_strikes_are_gone(harness: Harness) -> None:
    convict = await struck(harness, 3)
    await harness.cancel("r")
    with refused(IllegalMove):
        await harness.send(QuarantineRun("default", "r", harness.store.now(), "kills", 3))
    assert (await harness.row("r")).status == "waiting"
    assert convict.strikes == 3


async def test_only_progress_clears_strikes(harness: Harness) -> None:
    await struck(harness, 1)
    [run] = (await harness.claim("B")).runs
    await harness.signal("s1")
    assert await harness.commit(run, event("step.started", "a#1")) == "applied"
    run = await harness.row("r")
    read = event("signal.received", "go/s1")
    assert await harness.commit(run, read, inbox_read=1) == "applied"
    run = await harness.row("r")
    assert run.strikes == 1, "that a step began, or a message came, is none"
    assert await harness.commit(run, answer()) == "applied"
    assert (await harness.row("r")).strikes == 0
