"""The scenarios of the sweep: each feature once, each under forty lines."""

import asyncio
import contextlib
import dataclasses
import itertools
import os

import holdfast as hf
from holdfast.model.keys import undone_by
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import SETTINGS, Process, Scenario, World, effect
from holdfast.testing.loop import LIFE
from tests.crash import continuing
from tests.crash.asking import ASKING
from tests.crash.caching import CACHING
from tests.crash.clockwork import CLOCKWORK
from tests.crash.entities import ENTITIES
from tests.crash.exact import EXACT
from tests.crash.families import FAMILIES
from tests.crash.graph_lives import GRAPH_LIVES
from tests.crash.graph_streams import GRAPH_STREAMS
from tests.crash.graphs import GRAPHS
from tests.crash.job_limits import JOB_LIMITS
from tests.crash.jobs import JOBS
from tests.crash.limits import LIMITS
from tests.crash.observing import OBSERVING
from tests.crash.once import ONCE_ONLY
from tests.crash.payloads import PAYLOADS
from tests.crash.processing import PROCESSING
from tests.crash.secrets import SECRETS
from tests.crash.talk import TALK
from tests.crash.travels import TRAVELS

app = hf.App("crash")
go = hf.Signal("go", int)
ONCE = hf.Retry(max_attempts=1)


@app.step
async def work(n: int) -> int:
    effect(n)
    return n * 10


@app.step
async def slow(n: int, seconds: float) -> int:
    effect(n)
    await asyncio.sleep(seconds)
    return n


TOKENS = itertools.count()


@app.step
async def token() -> str:
    """Gives something else each time it runs."""
    drawn = f"token {next(TOKENS)}"
    effect(drawn)
    return drawn


@app.step
async def use(value: str) -> str:
    effect(value)
    return "used"


@app.step(retry=ONCE)
async def refuse(n: int) -> int:
    effect(n)
    raise ValueError(f"no {n}")


# --- chain


@app.workflow
async def chain_of_steps(n: int) -> int:
    first = await work(n)
    drawn = await token()
    await use(drawn)
    return await work(first) + len(hf.uuid().hex)


async def run_chain(caller: Caller) -> None:
    await caller.start(chain_of_steps.bind(4), "chain")
    assert await caller.listed() == ["chain"]
    assert await caller.result("chain") == ("completed", 432)


def tokens_are_used_as_recorded(world: World) -> list[str]:
    recorded = {
        (event.payload or b"").decode().strip('"')
        for event in world.dump.events["default", "chain"]
        if event.key.startswith("token")
    }
    used = {str(each.note) for each in world.effects if each.key.startswith("use")}
    return [] if used <= recorded else [f"{used} were used and {recorded} recorded"]


# --- a change that is taken up in the first turn, and one in the second


@app.workflow
async def changing() -> int:
    assert hf.get_version("old path gone", 1, 2) == 2
    await use("new" if hf.patched("early") else "former")
    return await work(1 if hf.get_version("late", 0, 2) == 2 else 2)


async def run_changing(caller: Caller) -> None:
    await caller.start(changing.bind(), "change")
    assert await caller.result("change") == ("completed", 10)


def changes_are_followed_as_noted(world: World) -> list[str]:
    """A worker that dies before it noted the early change leaves a run that never takes it up."""
    noted = {e.key for e in world.dump.events["default", "change"] if e.kind == "note.patched"}
    used = {each.note for each in world.effects if each.key.startswith("use")}
    wanted = {"new" if "early" in noted else "former"}
    return [] if used == wanted else [f"{used} was used and {noted} noted"]


# --- parallel, the loser cancelled


@app.workflow
async def first_of_two(n: int) -> int:
    racers = [asyncio.ensure_future(slow(each, 1.0)) for each in (n, n + 1)]
    done, late = await hf.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    for racer in late:
        racer.cancel()
    return await work(done[0].result()) + sum(await asyncio.gather(work(1), work(2), work(3)))


async def run_race(caller: Caller) -> None:
    await caller.start(first_of_two.bind(7), "race")
    assert (await caller.result("race")).status == "completed"


# --- retry with a durable back-off


@app.step(retry=hf.Retry(max_attempts=3, initial=2, factor=4, jitter=False))
async def flaky() -> int:
    effect(hf.attempt())
    if hf.attempt() < 3:
        raise ConnectionError("not yet")
    return hf.attempt()


@app.workflow
async def back_off() -> int:
    return await flaky()


async def run_back_off(caller: Caller) -> None:
    await caller.start(back_off.bind(), "back-off")
    assert await caller.result("back-off") == ("completed", 3)


# --- a timer that parks


@app.workflow
async def long_timer() -> int:
    before = hf.now()
    await work(1)
    await hf.sleep(8)
    await asyncio.sleep(2)
    await work(2)
    return int((hf.now() - before).total_seconds() >= 10)


async def run_timer(caller: Caller) -> None:
    await caller.start(long_timer.bind(), "timer")
    assert await caller.result("timer") == ("completed", 1)


# --- signals: while it runs, while it is parked, before they are awaited; each twice


@app.workflow
async def three_signals() -> list[int]:
    got = [await slow(0, 2.0), await hf.wait_for(go), await hf.wait_for(go)]
    return [*got, await hf.wait_for(go)]


async def run_signals(caller: Caller) -> None:
    await caller.start(three_signals.bind(), "signals")
    for n, pause in ((1, 1.0), (2, 0.0), (3, 2.5), (3, 0.0), (1, 0.0)):
        await caller.sleep(pause)
        await caller.signal("signals", go, n, id=f"signal-{n}")
    assert await caller.result("signals") == ("completed", [0, 1, 2, 3])


# --- a signal races its time-out: both ends are right, but there is one end


@app.workflow
async def signal_or_time_out() -> str:
    await work(1)
    try:
        got = await hf.wait_for(go, timeout=6)
    except TimeoutError:
        return f"time-out {await work(2)}"
    return f"signal {got}"


async def run_signal_race(caller: Caller) -> None:
    await caller.start(signal_or_time_out.bind(), "signal-race")
    await caller.sleep(6)
    with contextlib.suppress(hf.RunClosed):
        await caller.signal("signal-race", go, 1, id="late")
    told = await caller.result("signal-race")
    assert told in (("completed", "signal 1"), ("completed", "time-out 20"))


# --- cancel with a shielded compensation


@app.workflow
async def cancelled_order() -> int:
    await work(1)
    try:
        await hf.wait_for(go)
    finally:
        await asyncio.shield(slow(5, 1.0))
        await work(2)
    return 0


async def run_cancel(caller: Caller) -> None:
    await caller.start(cancelled_order.bind(), "cancel")
    await caller.until("cancel", "waiting")
    await caller.cancel("cancel")
    await caller.cancel("cancel")
    assert (await caller.result("cancel")).status == "was cancelled"


# --- terminate


@app.workflow
async def endless() -> int:
    try:
        await hf.wait_for(go)
    finally:
        await work(666)
    return 0


async def run_terminate(caller: Caller) -> None:
    await caller.start(endless.bind(), "terminate")
    await caller.until("terminate", "waiting")
    await caller.terminate("terminate")
    assert (await caller.result("terminate")).status == "was terminated"


def nothing_ran(world: World) -> list[str]:
    return [f"{each.key} of {each.run} ran" for each in world.effects if each.note == 666]


# --- a failed run, tried again


@app.step(retry=ONCE)
async def mended() -> int:
    effect()
    generation = int(hf.idempotency_key().split("/")[2])
    if generation == 1:
        raise ValueError("the first life is hard")
    return generation


@app.workflow
async def second_try() -> list[int]:
    return [await work(1), await mended(), await work(2)]


async def run_retry(caller: Caller) -> None:
    await caller.start(second_try.bind(), "retry")
    if (await caller.row("retry")).generation == 1:
        await caller.until("retry", "failed")
        await caller.retry("retry")
    while (await caller.row("retry")).status == "failed":
        await caller.retry("retry")
    assert await caller.result("retry") == ("completed", [10, 2, 20])


# --- a body that touches the world, blocked and mended


CARELESS: set[str] = set()


@app.workflow
async def careless() -> int:
    first = await work(1)
    if CARELESS:
        with contextlib.suppress(Exception):
            os.listdir("/")  # holdfast: allow(file)
    return first + await work(2)


async def run_guard(caller: Caller) -> None:
    CARELESS.add("until it is mended")
    await caller.start(careless.bind(), "guard")
    await caller.until("guard", "blocked")
    CARELESS.clear()
    while (await caller.row("guard")).status == "blocked":
        await caller.retry("guard")
    assert await caller.result("guard") == ("completed", 30)


# --- a task group with a failing sibling


@app.workflow
async def group() -> list[str]:
    seen: list[str] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(slow(1, 2.0))
            tasks.create_task(refuse(2))
            tasks.create_task(work(3))
    except* hf.StepFailed as failed:
        seen = [type(each).__name__ for each in failed.exceptions]
    return [*seen, str(await work(4))]


async def run_group(caller: Caller) -> None:
    await caller.start(group.bind(), "group")
    assert await caller.result("group") == ("completed", ["StepFailed", "40"])


# --- pause and resume


@app.workflow
async def pausable() -> list[int]:
    return [await slow(1, 2.0), await slow(2, 2.0), await work(3)]


async def run_pause(caller: Caller) -> None:
    await caller.start(pausable.bind(), "pause")
    await caller.sleep(1)
    await caller.pause("pause")
    await caller.until("pause", "paused")
    await caller.sleep(3)
    await caller.resume("pause")
    assert await caller.result("pause") == ("completed", [1, 2, 30])


# --- a time-out of the run, with clean-up; a pause does not stop its clock


@app.workflow(timeout=9)
async def overdue_order() -> int:
    await work(1)
    try:
        await hf.wait_for(go)
    finally:
        await asyncio.shield(slow(5, 1.0))
        await work(2)
    return 0


async def run_overdue(caller: Caller) -> None:
    await caller.start(overdue_order.bind(), "overdue")
    await caller.until("overdue", "waiting")
    await caller.pause("overdue")
    await caller.start(overdue_order.bind(), "overdue-too")
    assert (await caller.result("overdue")).status == "timed out"
    assert (await caller.result("overdue-too")).status == "timed out"


# --- a paused run is cancelled


async def run_cancel_of_paused(caller: Caller) -> None:
    await caller.start(cancelled_order.bind(), "cancel-paused")
    await caller.until("cancel-paused", "waiting", "paused")
    await caller.pause("cancel-paused")
    await caller.until("cancel-paused", "paused")
    await caller.cancel("cancel-paused")
    assert (await caller.result("cancel-paused")).status == "was cancelled"


# --- more parked runs than machines


@app.step
async def refund(n: int) -> int:
    effect(666)
    return n


@app.workflow
async def unrefunded(n: int) -> int:
    got = 0
    try:
        got = await hf.wait_for(go)
    finally:
        if not got:
            await refund(n)
    return got + n


async def run_evictions(caller: Caller) -> None:
    for n in (1, 2, 3):
        await caller.start(unrefunded.bind(n), f"parked-{n}")
    await caller.sleep(1)
    for n in (1, 2, 3):
        await caller.signal(f"parked-{n}", go, 5, id=f"go-{n}")
    for n in (1, 2, 3):
        assert await caller.result(f"parked-{n}") == ("completed", 5 + n)


# --- two workers, one of which may stand still past its lease


@app.workflow
async def contested(n: int) -> list[int]:
    return [await work(n), await slow(n, 20.0), await work(n + 1), await hf.wait_for(go)]


async def run_contested(caller: Caller) -> None:
    await caller.start(contested.bind(1), "contested")
    await caller.sleep(21)
    await caller.signal("contested", go, 9, id="go")
    assert await caller.result("contested") == ("completed", [10, 1, 20, 9])


# --- a deploy: workers are asked to stop in the middle of a step, and start anew


@app.workflow
async def deployed(n: int) -> list[int]:
    return [await work(n), await slow(n, 2.0), await slow(n + 1, 8.0), await hf.wait_for(go)]


async def run_deploy(caller: Caller) -> None:
    await caller.start(deployed.bind(1), "deploy")
    await caller.signal("deploy", go, 5, id="early")
    assert await caller.result("deploy") == ("completed", [10, 1, 2, 5])


# --- a long step that says how far it is, and a body that says what it does


@app.step(heartbeat_timeout=20, retry=hf.Retry(max_attempts=3, initial=2, jitter=False))
async def crunch(pages: int) -> int:
    begun = hf.last_heartbeat(int) or 0
    effect(begun)
    for page in range(begun, pages):
        hf.log.info("page %d", page)
        await asyncio.sleep(0.7)
        hf.heartbeat(page + 1)
        if page == 2 and hf.attempt() == 1:
            raise ConnectionError("the paper is out")
    return pages


@app.workflow
async def chatty(pages: int) -> int:
    hf.log.info("begin")
    done = await crunch(pages)
    hf.log.info("crunched")
    await work(1)
    hf.log.info("end")
    return done


async def run_chatty(caller: Caller) -> None:
    if "long" not in await caller.listed():
        await caller.start(chatty.bind(1), "short")
        await caller.until("short", "completed")
        await caller.forget("short")
    await caller.start(chatty.bind(5), "long")
    assert await caller.result("long") == ("completed", 5)
    assert (await caller.logged("long"))[-1] == "end"


def each_is_said(world: World) -> list[str]:
    """A body's lines are there once; a page whose heartbeat counted has left its line."""
    lines = world.dump.logs.get(("default", "long"), ())
    body = [line.message for line in lines if not line.key]
    pages = {line.message for line in lines if line.key}
    wrong = [] if body == ["begin", "crunched", "end"] else [f"the body said {body}"]
    return wrong if pages == {f"page {n}" for n in range(5)} else [*wrong, f"only {pages}"]


# --- more runs than a worker may hold


async def run_crowd(caller: Caller) -> None:
    for n in (1, 2, 3):
        await caller.start(pausable.bind(), f"crowd-{n}")
    for n in (1, 2, 3):
        assert await caller.result(f"crowd-{n}") == ("completed", [1, 2, 30])


# --- everything at once


@app.step(retry=hf.Retry(max_attempts=3, initial=1, factor=1.5, jitter=False))
async def wobbly(n: int) -> int:
    effect(n)
    await asyncio.sleep(n / 4)
    if hf.attempt() < 3:
        raise ConnectionError("not yet")
    return n


@app.workflow
async def storm() -> list[int]:
    try:
        async with asyncio.timeout(400):
            some = asyncio.gather(wobbly(1), wobbly(2), slow(3, 4.0), hf.wait_for(go))
            return [*await some, await work(5)]
    finally:
        await work(9)


async def run_storm(caller: Caller) -> None:
    await caller.start(storm.bind(), "storm")
    await caller.sleep(3)
    await caller.signal("storm", go, 4, id="go")
    assert await caller.result("storm") == ("completed", [1, 2, 3, 4, 50])


async def run_cancelled_storm(caller: Caller) -> None:
    await caller.start(storm.bind(), "cancelled-storm")
    await caller.sleep(3.4)
    await caller.cancel("cancelled-storm")
    with contextlib.suppress(hf.RunClosed):
        await caller.signal("cancelled-storm", go, 4, id="go")
    assert (await caller.result("cancelled-storm")).status == "was cancelled"


# --- tags, and a run that is copied


@app.workflow
async def rests(n: int) -> int:
    await asyncio.sleep(1)
    return n


async def run_copy(caller: Caller) -> None:
    await caller.start(rests.bind(7), "original")
    assert await caller.result("original") == ("completed", 7)
    assert await caller.copy("original", "copy") == ("original",)
    assert await caller.result("copy") == ("completed", 7)


# --- sagas: after a failure, after a cancel, with an undo that fails, and retried


@app.step(retry=ONCE)
async def book(place: str) -> str:
    effect(place)
    await asyncio.sleep(1)
    return f"{place} of {hf.idempotency_key().split('/')[2]}"


@app.step(retry=hf.Retry(max_attempts=2, initial=2, jitter=False))
async def release(booking: str | None) -> None:
    effect(booking)
    if hf.attempt() == 1 and booking and booking.startswith("hotel"):
        raise ConnectionError("not yet")


@app.step(retry=ONCE)
async def release_once(booking: str | None) -> None:
    effect(booking)
    if int(hf.idempotency_key().split("/")[2]) == 1:
        raise ConnectionError("the first life is hard")
    await asyncio.sleep(3)  # the run fails after it: a caller in doubt must not retry that too


@app.workflow
async def travel(fails: bool) -> None:
    async with hf.saga() as saga:
        await saga.do(book("hotel"), undo=release)
        await saga.do(book("flight"), undo=release)
        await (refuse(1) if fails else hf.wait_for(go))


@app.workflow
async def owing_travel() -> None:
    async with hf.saga() as saga:
        await saga.do(book("hotel"), undo=release)
        async with hf.saga() as inner:
            await inner.do(book("flight"), undo=release_once)
            await refuse(1)


@app.workflow
async def second_travel() -> list[str]:
    async with hf.saga() as saga:
        booked = [await saga.do(book("hotel"), undo=release)]
        return [*booked, str(await mended())]


async def run_saga(caller: Caller) -> None:
    await caller.start(travel.bind(True), "saga")
    assert await caller.result("saga") == ("failed", "StepFailed")


async def run_cancelled_saga(caller: Caller) -> None:
    for run, after in (("saga-early", 1.5), ("saga-late", 4.0)):
        await caller.start(travel.bind(False), run)
        await caller.sleep(after)
        await caller.cancel(run)
        assert (await caller.result(run)).status == "was cancelled"


async def run_owing_saga(caller: Caller) -> None:
    await caller.start(owing_travel.bind(), "owing")
    if (await caller.row("owing")).generation == 1:
        await caller.until("owing", "compensation_failed")
        await caller.retry("owing")
    while (await caller.row("owing")).status == "compensation_failed":
        await caller.retry("owing")
    assert await caller.result("owing") == ("failed", "StepFailed")


async def run_retried_saga(caller: Caller) -> None:
    await caller.start(second_travel.bind(), "again")
    if (await caller.row("again")).generation == 1:
        await caller.until("again", "failed")
        await caller.retry("again")
    while (await caller.row("again")).status == "failed":
        await caller.retry("again")
    assert await caller.result("again") == ("completed", ["hotel of 2", "2"])


def each_is_undone_once(world: World) -> list[str]:
    """What a step did is undone once as recorded, the last first, with what it gave."""
    found: list[str] = []
    for run in world.dump.runs:
        events = world.dump.events[run.ns, run.id]
        living = [e for e in events if e.superseded_by is None and e.kind == "step.completed"]
        results = {e.key: (e.payload or b"").decode() for e in living if e.key.startswith("book")}
        undone = [done for e in living for done in undone_by(e.key)]
        if run.status == "completed":
            wrong = undone
        else:
            happened = {e.key for e in world.effects if e.run == run.id and e.key[:4] == "book"}
            wrong = sorted({*results, *happened, *undone} ^ {*undone})
            first = [done for e in living if e.generation == 1 for done in undone_by(e.key)]
            in_order = sorted(first, reverse=True)
            wrong += [] if first == in_order else [f"{first} instead of {in_order}"]
            wrong += [] if len({*undone}) == len(undone) else [f"{undone} with doubles"]
        found += [f"{run.id}: {each} is not undone as it should be" for each in wrong]
        gave = {(e.key, (e.payload or b"").decode()) for e in events if e.kind == "step.completed"}
        found += [
            f"{run.id}: {e.key} was given {e.note!r}, which {done} did not give"
            for e in world.effects
            for done in undone_by(e.key)
            if e.run == run.id and e.note and (done, f'"{e.note}"') not in gave
        ]
    return found


# --- two queues: each run goes on where its queue is served, whoever dies


@app.step
async def where() -> str:
    """Tell whose process this is."""
    process = LIFE.get()
    assert isinstance(process, Process)
    effect()
    return process.role.rstrip("12")


@app.workflow(queue="near", priority=5)
async def near() -> list[str]:
    before = await where()
    await asyncio.sleep(8)
    return [before, await where()]


@app.workflow(queue="far", priority=1)
async def far() -> list[str]:
    before = await where()
    await hf.wait_for(go)
    return [before, await where()]


async def run_queues(caller: Caller) -> None:
    await caller.start(far.bind(), "far")
    await caller.start(near.bind(), "near")
    await caller.sleep(2)
    await caller.signal("far", go, 1, id="go")
    assert await caller.result("near") == ("completed", ["caller", "caller"])
    assert await caller.result("far") == ("completed", ["worker", "worker"])


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *continuing.SCENARIOS,
        *ENTITIES,
        Scenario("chain", app, run_chain, loose=frozenset({"token"}),
                 check=tokens_are_used_as_recorded),
        Scenario("change", app, run_changing, loose=frozenset({"use"}),
                 check=changes_are_followed_as_noted),
        Scenario("race", app, run_race),
        Scenario("back-off", app, run_back_off),
        Scenario("timer", app, run_timer),
        Scenario("signals", app, run_signals, apart=True, workers=1),
        Scenario("signal-race", app, run_signal_race, either=True),
        Scenario("cancel", app, run_cancel, apart=True, workers=1),
        Scenario("terminate", app, run_terminate, check=nothing_ran),
        Scenario("retry", app, run_retry),
        Scenario("guard", app, run_guard),
        Scenario("group", app, run_group),
        Scenario("pause", app, run_pause),
        Scenario("copy", app, run_copy),
        Scenario("overdue", app, run_overdue, either=True),
        Scenario("cancel-paused", app, run_cancel_of_paused, either=True),
        Scenario("eviction", app, run_evictions, check=nothing_ran,
                 settings=dataclasses.replace(SETTINGS, machines=1)),
        Scenario("zombie", app, run_contested, apart=True, workers=2),
        Scenario("deploy", app, run_deploy, apart=True, workers=2, deploys_at=4.0,
                 flavours=("stall",)),
        Scenario("heartbeat", app, run_chatty, apart=True, workers=2, check=each_is_said),
        Scenario("heartbeat-deploy", app, run_chatty, workers=1, deploys_at=4.0,
                 settings=dataclasses.replace(SETTINGS, drain=0.5), check=each_is_said),
        Scenario("saga", app, run_saga, apart=True, workers=2, check=each_is_undone_once),
        Scenario("saga-cancelled", app, run_cancelled_saga, either=True, check=each_is_undone_once),
        Scenario("saga-owed", app, run_owing_saga, check=each_is_undone_once),
        Scenario("saga-retried", app, run_retried_saga, check=each_is_undone_once),
        Scenario("crowd", app, run_crowd, settings=dataclasses.replace(SETTINGS, runs=1),
                 flavours=("stall",)),
        Scenario("queues", app, run_queues, workers=2, flavours=("stall",),
                 serves={"caller": ("near",), "worker1": ("far",), "worker2": ("far", "other")}),
        *TRAVELS,
        *ASKING,
        Scenario("storm", app, run_storm, flavours=("stall",)),
        Scenario("cancelled-storm", app, run_cancelled_storm, either=True, flavours=("stall",)),
        *TALK,
        *ONCE_ONLY,
        *EXACT,
        *OBSERVING,
        *LIMITS,
        *JOBS,
        *JOB_LIMITS,
        *CLOCKWORK,
        *CACHING,
        *SECRETS,
        *PAYLOADS,
        *GRAPHS,
        *PROCESSING,
        *GRAPH_STREAMS,
        *GRAPH_LIVES,
    )
}  # fmt: skip
SCENARIOS |= {scenario.name: scenario for scenario in FAMILIES}
