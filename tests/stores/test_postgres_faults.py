"""Lost connections, crashed servers, races: what was measured before it was designed, kept true."""

import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import holdfast as hf
from holdfast.errors import OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.kernel.dispatch import decide
from holdfast.model.annotations import Annotations, LogLine
from holdfast.model.commands import CommitTurn
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Renew
from holdfast.ports.reply import Reply
from holdfast.ports.store import Store
from holdfast.stores import processes
from holdfast.stores.postgres import PostgresStore, claims
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.takeover import Left, take_over
from holdfast.stores.postgres.target import SETTINGS, Target
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import LEASE, answer, event, ids
from holdfast.testing.postgres import VARIABLE, PostgresServer
from tests.engine.places import until, worker_of
from tests.stores.proxy import proxied

SQL = queries()
WRITER = "application_name = 'holdfast writes' AND datname = current_database()"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Harness]:
    async with Harness(lambda clock: PostgresStore(url, clock=clock, rings=False)) as harness:
        yield harness


@asynccontextmanager
async def session(url: str) -> "AsyncIterator[asyncpg.Connection]":
    """A session beside the store's, such as a person's."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def cut(beside: asyncpg.Connection, *, waiting: bool) -> None:
    """End the writer's session, once it waits for a lock (or at once)."""
    which = f"{WRITER} AND wait_event_type = 'Lock'" if waiting else WRITER
    ending = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {which}"
    async with asyncio.timeout(10):
        while not await beside.fetchval(ending):
            pass


async def queued(beside: asyncpg.Connection, sessions: int) -> None:
    """Wait until so many sessions wait for a lock, and no more."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(10):
        while await beside.fetchval(waiting) != sessions:
            pass


@pytest.fixture
def server(monkeypatch):
    """A server of this test's own, to be crashed."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start() as own:
        yield own


async def test_a_connection_cut_in_a_commit_leaves_its_outcome_open(postgres_store):
    async with opened(postgres_store) as harness, session(postgres_store) as beside:
        run = await harness.held("r")
        turn = [decide(harness.turn(run, answer("a#1")))]
        async with beside.transaction():
            await beside.execute("SELECT FROM holdfast.runs FOR UPDATE")
            writing = asyncio.ensure_future(harness.store.write(turn))
            async with session(postgres_store) as third:
                await cut(third, waiting=True)
            with pytest.raises(OutcomeUnknown):
                await writing
        assert (await harness.row("r")).seq == 1, "the re-read tells"
        assert await harness.commit(run, answer("a#1")) == "applied"


async def test_a_start_repeated_after_a_lost_reply_is_one_run(postgres_store):
    """E6: the first commit happened, its reply was lost; the repeat carries the same key."""
    async with opened(postgres_store) as harness, session(postgres_store) as beside:
        start = harness.starting("r")
        first = await harness.send(start)
        await cut(beside, waiting=False)
        for _ in range(3):
            try:
                again = await harness.send(start)
                break
            except OutcomeUnknown:
                continue
        assert again == first
        assert await harness.kinds("r") == ["run.started"]


async def test_a_swallowed_reply_is_told_in_time_and_the_repeat_finds_the_run(
    postgres_store, monkeypatch
):
    """E6: the server has committed, and its answer never comes."""
    monkeypatch.setattr("holdfast.stores.postgres.connection.PATIENCE_SECONDS", 1.0)
    async with proxied(postgres_store) as proxy, opened(proxy.url) as harness:
        await harness.start("before")
        proxy.swallows = True
        start = harness.starting("r")
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(harness.send(start), 10)
        async with opened(postgres_store) as other:
            assert (await other.row("r")).seq == 1, "it did happen"
        proxy.swallows = False
        assert (await harness.send(start)).id == "r"
        assert await harness.kinds("r") == ["run.started"]


async def test_a_link_that_goes_deaf_in_a_transaction_is_given_up(postgres_store, monkeypatch):
    """To roll back would need an answer, too."""
    monkeypatch.setattr("holdfast.stores.postgres.connection.PATIENCE_SECONDS", 1.0)
    async with proxied(postgres_store) as proxy, opened(proxy.url) as harness:
        assert isinstance(harness.store, PostgresStore)
        line = harness.store._claims

        async def ask_the_deaf() -> None:
            async with line.transaction() as ask:
                proxy.swallows = True
                await ask(SQL.clock)

        async with asyncio.timeout(10):
            with pytest.raises(TimeoutError):
                await ask_the_deaf()
        proxy.swallows = False
        assert await line.fetch(SQL.clock)


async def test_a_link_that_goes_deaf_at_once_is_not_waited_for(postgres_store, monkeypatch):
    """The first connection of a process asks who answers, before it is used for anything."""
    monkeypatch.setattr("holdfast.stores.postgres.target.CONNECT_SECONDS", 1.0)
    async with proxied(postgres_store) as proxy:
        await (await asyncpg.connect(proxy.url, server_settings=dict(SETTINGS))).close()
        proxy.budget = sys.maxsize - proxy.budget  # the greeting, and no more
        proxy.cuts = False
        async with asyncio.timeout(10):
            with pytest.raises(StoreUnavailable):
                await Target(proxy.url).connect({})


async def left(writing: "asyncio.Future[Any]") -> None:
    """Stop waiting for a write."""
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


async def pushed(harness: Harness, run: Run) -> None:
    """Commit in the caller's own task, as the step does whose result it is."""
    reply = harness.store.write([decide(harness.turn(run, answer("a#1")))])
    assert isinstance(reply, Reply)
    work = reply.push()
    assert work is not None
    await work


@pytest.mark.parametrize("is_ended", [True, False], ids=["its session ends", "it goes on"])
async def test_a_write_whose_caller_left_before_the_commit_is_whole_or_not_there(
    postgres_store, is_ended
):
    """E11: to stop waiting says nothing about the commit, which still waits for the row.

    Who asks again by the run, the epoch and the length it knew is told what came of it.
    """
    async with opened(postgres_store) as harness, session(postgres_store) as beside:
        run = await harness.held("r")
        async with session(postgres_store) as third, third.transaction():
            await third.execute("SELECT FROM holdfast.runs FOR UPDATE")
            writing = asyncio.ensure_future(pushed(harness, run))
            await queued(beside, 1)
            await left(writing)
            if is_ended:
                await cut(beside, waiting=True)
                await queued(beside, 0)
            assert (await harness.row("r")).seq == 1
            again = asyncio.ensure_future(harness.commit(run, answer("a#1")))
            await queued(beside, 1 if is_ended else 2)
        assert await again == ("applied" if is_ended else "moved")
        assert await harness.kinds("r") == ["run.started", "step.completed"]


async def test_a_write_whose_caller_left_after_the_commit_is_there(postgres_store):
    """E11: as above, and the answer that nobody waited for was on its way."""
    async with (
        session(postgres_store) as beside,
        proxied(postgres_store) as proxy,
        opened(proxy.url) as harness,
    ):
        before = await harness.held("before")
        assert await harness.commit(before, answer("a#1")) == "applied", "now it is prepared"
        run = await harness.held("r")
        proxy.swallows = True
        writing = asyncio.ensure_future(pushed(harness, run))
        async with asyncio.timeout(10):
            while await beside.fetchval("SELECT seq FROM holdfast.runs WHERE id = 'r'") == 1:
                pass
        await left(writing)
        proxy.swallows = False
        assert (await harness.row("r")).seq == 2
        assert await harness.commit(run, answer("a#1")) == "moved"
        assert await harness.kinds("r") == ["run.started", "step.completed"]


NAIVE = """
UPDATE holdfast.runs SET owner = owner WHERE id IN (
    SELECT id FROM holdfast.runs WHERE status = 'pending' LIMIT 1 FOR UPDATE SKIP LOCKED
)
"""
"""What everybody writes first."""
WORST = ("hashjoin", "mergejoin", "material", "memoize", "hashagg", "sort", "indexscan")
"""What a session must not plan with, so that the inner side of a join is run for every row."""


@pytest.mark.parametrize("hints", [(), ("r000",)], ids=["by lanes", "by name"])
async def test_a_claim_of_one_takes_one(postgres_store, hints):
    """E5b: by the plan at hand, what everybody writes first takes all 200."""
    async with opened(postgres_store) as harness, session(postgres_store) as beside:
        await harness.send_all([harness.starting(f"r{n:03}") for n in range(200)])
        await beside.execute("ANALYZE holdfast.runs")
        await beside.execute("; ".join(f"SET enable_{what} = off" for what in WORST))
        undone = beside.transaction()
        await undone.start()
        assert await beside.execute(NAIVE) == "UPDATE 200"
        await undone.rollback()

        claim = Claim("default", "A", ("w",), 1, LEASE, strikes=5, hints=hints)
        asked = SQL.claim_named if hints else claims.TAKE
        bound = asked.bound(claims.taking(claim, harness.store.now()))
        [[plan]] = await beside.fetch(f"EXPLAIN (FORMAT JSON) {asked.text}", *bound)
        taken = claims.taken(await beside.fetch(asked.text, *bound))
        assert ids(taken.runs) == ["r000"]
        running = "SELECT count(*) FROM holdfast.runs WHERE status = 'running'"
        assert await beside.fetchval(running) == 1
        # What is planned apart is carried out once, whatever it is joined with.
        assert locked_in(json.loads(plan)) == ({"chosen"} if hints else {"sound", "suspects"})
        assert "CTE chosen" in plan


def locked_in(plan: Any, name: str = "") -> set[str]:
    """Return the names of the parts of a plan that lock rows."""
    if isinstance(plan, list):
        return set().union(*(locked_in(each, name) for each in plan))
    plan = plan.get("Plan", plan)
    name = plan.get("Subplan Name", "").removeprefix("CTE ") or name
    here = {name} if plan["Node Type"] == "LockRows" else set()
    return here | locked_in(plan.get("Plans", []), name)


async def follow(harness: Harness, seen: dict[str, list[Event]]) -> None:
    """Read on from the last number seen of each run, as whoever tells others of a history does."""
    for run, events in seen.items():
        after = events[-1].seq if events else 0
        loaded = await harness.store.load("default", run, after)
        assert loaded is not None
        events += loaded.events


@pytest.mark.parametrize(
    ("runs", "events"), [(1, 1), (1, 3), (6, 1)], ids=["lone", "several events", "many runs"]
)
async def test_who_follows_a_history_misses_nothing(postgres_store, runs, events):
    """E1b: numbers are given under the row's lock, so a later one is never seen before an earlier.

    Several writers add to the same runs from what each has read. Nothing that was refused is
    there, and nothing that was accepted is missed, doubled or out of order.
    """
    said: Counter[str] = Counter()
    accepted: defaultdict[str, list[str]] = defaultdict(list)

    async def add(store: Store, run: str, name: str) -> None:
        loaded = await store.load("default", run, 1 << 62)
        assert loaded is not None
        keys = [f"{name}#{n}" for n in range(1, events + 1)]
        told = await harness.send(harness.turn(loaded.run, *map(answer, keys)), store)
        said[told] += 1
        if told == "applied":
            accepted[run] += keys

    async def write(store: Store, writer: str) -> None:
        for n in range(30):
            await asyncio.gather(*(add(store, run, f"{writer}{n}") for run in seen))

    async with opened(postgres_store) as harness:
        seen: dict[str, list[Event]] = {(await harness.held(f"r{n}")).id: [] for n in range(runs)}
        stores = [harness.store, await harness.another(), await harness.another()]
        writing = asyncio.gather(*(write(store, "ABC"[n]) for n, store in enumerate(stores)))
        while not writing.done():
            await follow(harness, seen)
        await writing
        await follow(harness, seen)
        for run, followed in seen.items():
            assert [e.seq for e in followed] == list(range(1, (await harness.row(run)).seq + 1))
            assert sorted(e.key for e in followed[1:]) == sorted(accepted[run])
    assert said["applied"]
    assert said["moved"], "they did come in each other's way"
    assert said.keys() == {"applied", "moved"}


def late_turns(harness: Harness, run: Run, other: Run) -> dict[str, list[CommitTurn]]:
    """Return a turn of `run` for each of the statements that turns are written by."""
    keys = [answer(f"late#{n}") for n in (1, 2, 3)]
    said = Annotations(lines=(LogLine(1, 20, "shop", "hello"),))
    return {
        "one event": [harness.turn(run, *keys[:1])],
        "two events": [harness.turn(run, *keys[:2])],
        "three events": [harness.turn(run, *keys)],
        "of a group": [harness.turn(run, *keys[:1]), harness.turn(other, answer("o#1"))],
        "of any kind": [harness.turn(run, *keys[:1], annotations=said)],
    }


TURNS = ("one event", "two events", "three events", "of a group", "of any kind")


@pytest.mark.parametrize("is_late", [True, False], ids=["takeover first", "commit first"])
@pytest.mark.parametrize("how", TURNS)
async def test_a_zombie_writes_nothing_after_a_takeover(postgres_store, how, is_late):
    """E2: the guard stands in the writing statement, so there is no moment before it.

    Both wait for the row, in this order or the other, and both have looked at it before.
    """
    async with opened(postgres_store) as harness, session(postgres_store) as beside:
        run, bystander = await harness.held("r", worker="A"), await harness.held("o", worker="C")
        turns = late_turns(harness, run, bystander)[how]
        newcomer = await harness.another()
        assert isinstance(newcomer, PostgresStore)
        left = Left("A", processes.this(), run.ns, run.id, run.workflow, run.version)
        claim = Claim("default", "B", ("w",), 1, LEASE, strikes=5)
        taking = take_over(newcomer._claims, claim, [left], newcomer.test_time())
        both = [taking, harness.send_all(turns)]
        async with session(postgres_store) as third, third.transaction():
            await third.execute("SELECT FROM holdfast.runs WHERE id = 'r' FOR UPDATE")
            waiting = []
            for each in both if is_late else reversed(both):
                waiting.append(asyncio.ensure_future(each))
                await queued(beside, len(waiting))
        answers = await asyncio.gather(*waiting)
        claimed, told = answers if is_late else reversed(answers)
        assert told == ["lost" if is_late else "applied", *["applied"] * (len(turns) - 1)]
        assert ids(claimed.runs) == ["r"]
        stored = [] if is_late else [each.key for each in turns[0].events]
        loaded = await harness.load("r")
        assert [each.key for each in loaded.events[1:]] == stored
        assert loaded.run == claimed.runs[0]
        row = loaded.run
        assert (row.owner, row.epoch, row.seq) == ("B", run.epoch + 1, 1 + len(stored))
        close = harness.turn(row, event("run.completed"), status="completed")
        assert await harness.send(close, newcomer) == "applied"


async def test_no_run_sleeps_beside_an_unread_message(postgres_store):
    """E13: check-and-park and put-and-wake contend for one row."""
    async with opened(postgres_store) as harness:
        other = await harness.another()
        for n in range(60):
            run = await harness.held(f"r{n}")
            parking = harness.commit(run, status="waiting", inbox_seq=0, reason="waits")
            sending = harness.send(harness.signalling("s1", run.id), other)
            parked, _ = await asyncio.gather(parking, sending)
            row = await harness.row(run.id)
            assert row.inbox_seq == 1
            assert (parked, row.status) in (("applied", "waiting"), ("mail", "running"))
            assert row.status == "running" or row.wake_at is not None, "awake"
            if row.status == "running":
                await harness.end(row)


async def test_two_hosts_that_lock_many_runs_do_not_wait_for_each_other(postgres_store):
    async with opened(postgres_store) as harness:
        other = await harness.another()
        runs = [await harness.held(f"r{n:02}") for n in range(20)]
        for round_ in range(10):
            turns = [decide(harness.turn(run, answer(f"a#{round_}"))) for run in runs]
            mail = [decide(harness.signalling(f"s{round_}", run.id)) for run in reversed(runs)]
            await asyncio.gather(harness.store.write(turns), other.write(mail))
            runs = [await harness.row(run.id) for run in runs]
        assert {(run.seq, run.inbox_seq) for run in runs} == {(11, 10)}


async def test_who_reads_the_servers_log_is_told_what_a_refusal_is(server):
    """One of a group is refused: the group is undone by an error, and each is tried alone."""
    async with opened(server.url) as harness:
        runs = [await harness.held(f"r{n}") for n in range(3)]
        await harness.commit(runs[0], answer("before#1"))
        told = await asyncio.gather(*(harness.commit(run, answer("a#1")) for run in runs))
        assert told == ["moved", "applied", "applied"]
    log = Path(server.execute("SHOW data_directory")).parent / "log"
    # In a new database it also stands, once, that there is no schema yet.
    errors = [line for line in log.read_text().splitlines() if "ERROR" in line]
    [line] = [line for line in errors if '"holdfast.meta" does not exist' not in line]
    assert "holdfast: one of a group of writes was refused, so each is tried alone" in line


async def test_an_outage_is_survived(server):
    """The server crashes under a worker: nothing is lost, and the process goes on by itself."""
    app = hf.App("outage")
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def slow(n: int) -> int:
        began.set()
        await release.wait()
        return n

    @app.workflow
    async def flow(n: int) -> int:
        return await slow(n) + await slow(1)

    with server.database() as url:
        async with app.open(url, settings=hf.Settings(poll=0.05)) as client:
            runs = [await client.start(flow.bind(n), id=f"r{n}") for n in range(20)]
            await began.wait()
            await asyncio.to_thread(server.restart, "immediate")
            release.set()
            async with asyncio.timeout(30):
                assert [await run.result() for run in runs] == [n + 1 for n in range(20)]
            assert await client.start(flow.bind(5), id="r5") is not None


async def test_a_deaf_link_is_a_state_that_heals(postgres_store, monkeypatch):
    """Nothing is answered for a while: the worker says that it is degraded, and then goes on."""
    for name in ("connection.PATIENCE_SECONDS", "target.CONNECT_SECONDS"):
        monkeypatch.setattr(f"holdfast.stores.postgres.{name}", 1.0)
    app = hf.App("deaf")
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def slow(n: int) -> int:
        began.set()
        await release.wait()
        return n

    @app.workflow
    async def flow(n: int) -> int:
        return await slow(n) + await slow(1)

    quick = hf.Settings(poll=0.05)
    async with (
        proxied(postgres_store) as proxy,
        app.open(proxy.url, settings=quick) as client,
    ):
        runs = [await client.start(flow.bind(n), id=f"r{n}") for n in range(10)]
        await began.wait()
        health = worker_of(client).health
        proxy.swallows = True
        release.set()
        await until(lambda: health.is_degraded)
        proxy.swallows = False
        async with asyncio.timeout(30):
            assert [await run.result() for run in runs] == [n + 1 for n in range(10)]
        await until(lambda: not health.is_degraded)
    async with opened(postgres_store) as harness:
        for n in range(10):
            kinds = [kind for kind in await harness.kinds(f"r{n}") if kind != "step.started"]
            assert kinds == ["run.started", *["step.completed"] * 2, "run.completed"]


async def test_a_dead_server_is_told_from_a_write_in_doubt(server):
    store = PostgresStore(server.url, rings=False)
    await store.open()
    await store.load("default", "r")
    server.stop()
    with pytest.raises(StoreUnavailable):
        await store.load("default", "r")
    with pytest.raises(StoreError):
        await store.write([Renew("A", 1)])
    with pytest.raises(StoreUnavailable, match="Cannot reach"):
        await store.write([Renew("A", 1)])
    await store.close()
