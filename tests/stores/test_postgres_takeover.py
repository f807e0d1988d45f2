"""Who starts after a crash takes over what dead processes of this machine left: one statement."""

import asyncio
import subprocess
import sys
from typing import Any, cast

import pytest

from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed, Reap, Renew, SetQueue
from holdfast.stores import processes
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.takeover import Ahead, Left
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import LEASE, answer, ids


@pytest.fixture
def ended() -> str:
    """The name of a process of this machine that has ended."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = processes.name_of(child.pid)
    child.kill()
    child.communicate()
    assert processes.has_ended(name)
    return name


def opened(url: str) -> Harness:
    return Harness(lambda clock: PostgresStore(url, clock=clock))


async def dies(harness: Harness, worker: str, name: str) -> None:
    """Let a worker be one of the process of that name."""
    await harness.store.write([Renew(worker, LEASE, address=name)])


def claim(**fields: Any) -> Claim:
    given: dict[str, Any] = {"limit": 100, "strikes": 5, "eager": True, **fields}
    return Claim("default", "B", ("w",), lease=LEASE, **given)


def store_of(harness: Harness) -> PostgresStore:
    return cast("PostgresStore", harness.store)


async def newcomer(harness: Harness) -> PostgresStore:
    """Return a store that was opened after all that, and has done what nobody waits for."""
    store = cast("PostgresStore", await harness.another())
    await asyncio.gather(*store._errands)
    return store


async def test_what_the_dead_left_is_taken_in_one_statement(
    postgres_store: str, ended: str
) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r", worker="A")
        assert await harness.commit(run, answer("a#1")) == "applied"
        await dies(harness, "A", ended)
        other = await newcomer(harness)
        before = other._claims.statements
        claimed = await other.claim(claim())
        assert (other._claims.statements - before, claimed.held) == (1, None)
        [taken] = claimed.runs
        assert (taken.owner, taken.epoch, taken.seq) == ("B", run.epoch + 1, 2)
        assert (taken.status, taken.strikes, taken.wake_at) == ("running", 1, None)
        assert claimed.reaped == (("A", 1),)
        assert await harness.row("r") == taken
        assert await harness.commit(run._replace(seq=2), answer("late#1")) == "lost"
        assert await harness.send(harness.turn(taken, answer("b#1")), other) == "applied"
        assert [worker.id for worker in await other.workers()] == ["B"]


async def test_who_lives_keeps_its_runs(postgres_store: str) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r", worker="A")
        claimed = await (await newcomer(harness)).claim(claim())
        assert (claimed.runs, claimed.dead, claimed.reaped) == ((), (), ())
        assert await harness.row("r") == run


@pytest.mark.parametrize("strikes", [0, 1, 3, 4])
async def test_it_is_as_if_they_were_reaped_and_then_claimed(
    postgres_store: str, ended: str, strikes: int
) -> None:
    """Of two workers with the same runs, one is taken over, one reaped before a claim."""
    async with opened(postgres_store) as harness:
        for worker in ("A", "C"):
            for n in range(3):
                await harness.held(f"{worker}{n}", worker=worker, priority=3 - n)
            await harness.held(f"{worker}x", worker=worker, workflow="unknown")
            await harness.held(f"{worker}q", worker=worker, queue="slow")
            for _ in range(strikes):
                await harness.reap(worker, known_dead=True)
                for name in ("w", "unknown"):
                    given = claim(suspects=100, eager=False)._replace(worker=worker)
                    await harness.store.claim(given._replace(workflows=(name,)))
        await dies(harness, "A", ended)
        served = claim(queues=("default",), limit=2)
        over = await (await newcomer(harness)).claim(served)
        reaps = (Reap("C", known_dead=True),)
        other = await harness.store.claim(served._replace(worker="D", reaps=reaps, eager=False))

        def told(claimed: Claimed) -> tuple[list[str], list[int]]:
            return [run.id[1:] for run in claimed.runs], [count for _, count in claimed.reaped]

        assert (len(told(over)[0]), told(over)[1]) == (len(told(other)[0]), told(other)[1])
        rows = {run.id: run for run in (await store_of(harness).dump()).runs}
        taken = set(told(over)[0])
        assert taken == set(told(other)[0])
        for name in ("0", "1", "2", "x", "q"):
            assert like(rows[f"A{name}"]) == like(rows[f"C{name}"]), name


def like(run: Run) -> tuple[object, ...]:
    """Return what does not depend on who had the run, nor on when."""
    held = None if run.owner is None else "held"
    return run.status, held, run.epoch, run.strikes, bool(run.reason), run.wake_at is None


async def test_runs_of_a_managed_queue_go_back_into_the_queue(
    postgres_store: str, ended: str
) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A", queue="narrow")
        await harness.store.write([SetQueue("default", "narrow", paused=True)])
        await dies(harness, "A", ended)
        claimed = await (await newcomer(harness)).claim(claim())
        assert (claimed.runs, claimed.reaped) == ((), (("A", 1),))
        row = await harness.row("r")
        assert (row.status, row.owner, row.strikes) == ("waiting", None, 1)
        assert row.reason == "worker A is gone"


async def test_several_dead_share_the_room_for_one(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        for worker in ("A", "C"):
            await harness.held(f"{worker}1", worker=worker)
            await harness.held(f"{worker}2", worker=worker)
            await dies(harness, worker, ended)
        claimed = await (await newcomer(harness)).claim(claim(limit=3))
        assert (len(claimed.runs), sorted(claimed.reaped)) == (3, [("A", 2), ("C", 2)])
        rest = await harness.claim("D")
        assert sorted(ids((*claimed.runs, *rest.runs))) == ["A1", "A2", "C1", "C2"]


async def test_a_worker_gets_one_suspect_of_all_the_dead(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        for n in range(3):
            await harness.held(f"r{n}", worker=f"A{n}")
            await harness.reap(f"A{n}", known_dead=True)
            await harness.claim(f"A{n}")
            await dies(harness, f"A{n}", ended)
        claimed = await (await newcomer(harness)).claim(claim())
        assert [run.strikes for run in claimed.runs] == [2]


async def test_only_the_first_claim_takes_over(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A")
        other = await newcomer(harness)
        assert (await other.claim(claim())).runs == ()
        await dies(harness, "A", ended)
        assert (await other.claim(claim())).dead == (("A", True),)


async def test_who_came_back_under_the_same_id_is_left_alone(
    postgres_store: str, ended: str
) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r", worker="A")
        await dies(harness, "A", ended)
        other = await newcomer(harness)
        await harness.renew("A")  # from here, by a process that lives
        assert (await other.claim(claim())).runs == ()
        assert await harness.commit(run, answer("a#1")) == "applied"


# --- the history that is read ahead


async def test_a_history_is_read_while_its_run_is_taken(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r", worker="A")
        await harness.signal("s1")
        assert await harness.commit(run, answer("a#1"), answer("b#1")) == "applied"
        await dies(harness, "A", ended)
        other = await newcomer(harness)
        [taken] = (await other.claim(claim())).runs
        assert other._ahead is not None
        await asyncio.wait((other._ahead._reading,))
        asked = other.statements
        loaded = await other.load("default", "r")
        assert other.statements == asked, "nothing was asked once more"
        assert loaded == await harness.load("r")
        assert loaded is not None
        assert loaded.run == taken
        assert [message.id for message in loaded.mail] == ["s1"]


async def test_what_came_while_the_run_was_taken_is_read(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A")
        await dies(harness, "A", ended)
        other = await newcomer(harness)
        ahead = Ahead(other._writes, Left("A", ended, "default", "r", "w", "1"))
        await asyncio.wait((ahead._reading,))
        await harness.signal("s1")
        ahead.know((await other.claim(claim())).runs)
        assert await ahead.loaded() is None
        other._ahead = ahead
        loaded = await other.load("default", "r")
        assert loaded == await harness.load("r")
        assert loaded is not None
        assert [message.id for message in loaded.mail] == ["s1"]


async def test_what_was_read_ahead_counts_only_if_nothing_came_in_between(
    postgres_store: str, ended: str
) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r", worker="A")
        store = store_of(harness)
        left = Left("A", ended, "default", "r", "w", "1")
        ahead = Ahead(store._writes, left)
        await asyncio.wait((ahead._reading,))
        assert await ahead.loaded() is None, "it was not taken"
        assert await harness.commit(run, answer("a#1")) == "applied"
        ahead.know([await harness.row("r")])
        assert await ahead.loaded() is None, "the history is longer now"
        ahead = Ahead(store._writes, left)
        await asyncio.wait((ahead._reading,))
        await harness.reap("A", known_dead=True)
        for worker in ("C", "D"):
            taken = (await harness.claim(worker)).runs
            assert ids(taken) == ["r"]
            ahead.know(taken)
            is_first = worker == "C"
            assert (await ahead.loaded() is not None) == is_first, "others had it meanwhile"
            await harness.reap(worker, known_dead=True)


async def test_nothing_is_read_ahead_that_will_not_be_taken(
    postgres_store: str, ended: str
) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A", workflow="unknown")
        await dies(harness, "A", ended)
        other = await newcomer(harness)
        before = other._writes.statements
        assert (await other.claim(claim())).reaped == (("A", 1),)
        assert (other._writes.statements, other._ahead) == (before, None)


async def test_what_is_rehearsed_changes_nothing(postgres_store: str, ended: str) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A")
        await dies(harness, "A", ended)
        before = await store_of(harness).dump()
        other = await newcomer(harness)
        assert other._claims.statements > 1, "it was rehearsed"
        assert await store_of(harness).dump() == before
        assert ids((await other.claim(claim())).runs) == ["r"]


async def test_where_nobody_died_nothing_is_rehearsed(postgres_store: str) -> None:
    async with opened(postgres_store) as harness:
        await harness.held("r", worker="A")
        assert (await newcomer(harness)).statements == 1
