"""Workflows whose recorded histories every release and every interpreter must replay.

    python -m tests.replay.flows add FOLDER         run those that have no history there yet
    python -m tests.replay.flows record FOLDER      run each here and write its history
    python -m tests.replay.flows replay FOLDER...   replay all that the folders hold
    python -m tests.replay.flows shapes             print the shape of each

Never change a workflow of this file: add another. What runs in the field cannot be changed either.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast import testing
from holdfast.model.events import CLASS_OF, Event
from holdfast.model.run import Loaded, Run
from tests.engine.places import until

app = hf.App("histories")
go = hf.Signal("go", int)
ONCE = hf.Retry(max_attempts=1)


@app.step
async def work(n: int) -> int:
    return n


@app.step
async def never() -> int:
    await asyncio.Event().wait()
    return 0


@app.step(retry=hf.Retry(max_attempts=2, initial=0.001))
async def flaky(n: int) -> int:
    if hf.attempt() == 1:
        raise ValueError("first")
    return n


@app.step(retry=ONCE, raises=[KeyError])
async def fails(listed: bool) -> int:
    raise KeyError("k") if listed else ValueError("v")


@app.step
async def identify(token: str) -> str:
    return token


@app.workflow
async def wait_for() -> list[int]:
    """3.11 makes a task for wait_for, 3.12 does not: the keys must not tell."""
    got = [await asyncio.wait_for(work(1), 60)]

    async def nested() -> int:
        return await asyncio.wait_for(work(2), 60) + await work(3)

    got.append(await asyncio.wait_for(nested(), 60))
    try:
        await asyncio.wait_for(never(), 0.01)
    except TimeoutError:
        got.append(await work(4))
    return got


@app.workflow
async def timeout() -> list[int]:
    got: list[int] = []
    for n in range(3):
        try:
            async with asyncio.timeout(0.01):
                got.append(await work(n))
                await never()
        except TimeoutError:
            got.append(-n)
    return got


@app.workflow
async def groups() -> list[int]:
    async def branch(n: int) -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(10 * n + k)) for k in range(3)]
        return sum(task.result() for task in tasks)

    async with asyncio.TaskGroup() as group:
        branches = [group.create_task(branch(n)) for n in range(3)]
    more = await asyncio.gather(branch(7), work(1), branch(8))
    return [*(task.result() for task in branches), *more]


@app.workflow
async def losers() -> list[int]:
    async def slow() -> int:
        return await never()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(slow()) for _ in range(5)]
        done, pending = await hf.wait(
            [group.create_task(work(1)), *tasks], return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
    first = [task.result() for task in done]
    return [*first, *[await each for each in hf.as_completed([work(2), work(3)])]]


@app.workflow
async def locks() -> list[int]:
    lock, queue, order = asyncio.Lock(), asyncio.Queue[int](1), list[int]()
    room = asyncio.Semaphore(2)

    async def one(n: int) -> None:
        async with lock:
            order.append(await work(n))
        async with room:
            await hf.sleep(0.001)
            await queue.put(n)

    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(one(n))
        order += [await queue.get() for _ in range(4)]
    return sorted(order)


@app.workflow
async def failures() -> list[str]:
    told = [str(await flaky(1))]
    try:
        await fails(False)
    except hf.StepFailed as error:
        told.append(f"{error.type} {error.attempts}")
    try:
        await fails(True)
    except KeyError as error:
        told.append(repr(error))
    return told


@app.workflow
async def signals() -> list[int]:
    got = [await hf.wait_for(go), await hf.wait_for(go, timeout=60)]
    try:
        got.append(await hf.wait_for(go, timeout=0.01))
    except TimeoutError:
        got.append(await work(-1))
    return got


@app.workflow
async def chance() -> list[str]:
    async def child() -> str:
        return await identify(f"{hf.uuid()} {hf.random().random()}")

    return [*await asyncio.gather(child(), child()), await identify(str(hf.random().random()))]


@app.workflow
async def cancelled() -> int:
    try:
        await hf.wait_for(go)
    finally:
        await asyncio.shield(work(1))
    return 0


@app.workflow
async def steps(n: int = 1, name: str = "lamp") -> list[str]:
    first = await work(n)
    return [await identify(f"{name} {first}"), str(await work(first + 1)), await identify(name)]


@app.workflow
async def retries() -> int:
    return await flaky(1) + sum(await asyncio.gather(flaky(2), flaky(3)))


@app.workflow
async def timers() -> int:
    begun = hf.now()
    await hf.sleep(0.02)
    await asyncio.gather(asyncio.sleep(0.03), hf.sleep(0.01))
    return await work(int((hf.now() - begun).total_seconds() >= 0.05))


@app.workflow
async def patched() -> list[int]:
    async def branch() -> int:
        return await work(20 if hf.patched("later") else 2)

    got = [await work(10 if hf.patched("first") else 1)]
    got += await asyncio.gather(branch(), branch())
    return [*got, await work(30 if hf.patched("first") and hf.patched("last") else 3)]


@app.workflow
async def unpatched() -> list[int]:
    """Its history is of `former`: the code from before the changes."""
    if hf.patched("first"):
        await work(99)
    got = [await work(1), await work(2)]
    version = hf.get_version("second", 0, 3)
    return [*got, await work(3 if hf.patched("first") or version else 4)]


former = hf.App("histories")


@former.workflow(name="unpatched")
async def before_the_changes() -> list[int]:
    return [await work(1), await work(2), await work(4)]


@app.workflow
async def get_version() -> list[int]:
    got = [await work(hf.get_version("price", 1, 4))]
    hf.deprecate_patch("rounding")
    return [
        *got,
        await work(hf.get_version("price", 0, 4)),
        await work(hf.get_version("tax", 0, 1)),
    ]


BROKEN = False


@app.step(retry=ONCE)
async def breaks(n: int) -> int:
    if BROKEN:
        raise ValueError("broken")
    return n


@app.workflow
async def reopened() -> list[int]:
    """Its history holds a failure that a retry took back, and what was kept beside it."""
    beside = asyncio.ensure_future(work(1))
    try:
        return [await work(0), await breaks(2), await beside]
    except hf.StepFailed:
        await work(9 if hf.patched("on failure") else 8)
        raise


@app.step
async def undo(n: int | None) -> int:
    return n or 0


@app.step(retry=ONCE)
async def undo_breaks(n: int | None) -> int:
    return await breaks.plain(n or 0)


async def several(saga: hf.Saga, n: int) -> int:
    first, second = await asyncio.gather(
        saga.do(work(n), undo=undo), saga.do(flaky(n + 1), undo=undo)
    )
    return first + second


@app.workflow
async def sagas() -> list[str]:
    """Undone after a failure, by a time-out of either kind, and for a failing sibling."""
    got: list[str] = []

    async def waits(n: int) -> None:
        async with hf.saga() as saga:
            await saga.do(several(saga, n), undo=undo)
            await saga.do(never(), undo=undo)

    async def fails_inside() -> None:
        async with hf.saga() as outer, hf.saga() as inner:
            await outer.do(work(1), undo=undo)
            await inner.do(work(2), undo=lambda n: asyncio.wait_for(undo(n), 60))
            await fails(False)

    async def times_out() -> None:
        async with asyncio.timeout(0.05):
            await waits(10)

    async def beside() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(20))
            group.create_task(fails(True))

    async def waited_for() -> None:
        await asyncio.wait_for(waits(30), 0.05)

    for each in (fails_inside, times_out, beside, waited_for):
        try:
            await each()
        except Exception as error:
            got.append(type(error).__name__)
    return got


@app.workflow
async def owed() -> list[str]:
    """Its history holds an undo that failed for good, and the retry that made up for it."""
    try:
        async with hf.saga() as outer:
            await outer.do(work(1), undo=undo)
            async with hf.saga() as inner:
                await inner.do(work(2), undo=undo_breaks)
                await inner.do(work(3), undo=undo)
                await fails(False)
    except hf.CompensationFailed as error:
        return [each.key for each in error.owed]
    return []


@app.workflow
async def rerun() -> list[int]:
    """Its history holds steps and signals that a rerun took back, and a sibling that was kept."""
    before, sibling = await asyncio.gather(work(1), work(2))
    heard = await hf.wait_for(go) if hf.patched("after the cut") else 0
    return [before, sibling, heard, await work(3), hf.random().randrange(100)]


@app.workflow
async def continued(turn: int = 1, drawn: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What nobody took goes over, keys begin again, and other lots are drawn."""
    drawn = (*drawn, hf.uuid().hex)
    done = await work(turn) + await hf.wait_for(go)
    if turn < 3:
        return hf.continue_as_new(continued.bind(turn + 1, drawn))
    return (*drawn, f"{done} {hf.history_length() > 2} {hf.should_continue()}")


put = hf.Update("put", int, int)
quit_ = hf.Update("quit", str)


@app.workflow
async def updates() -> list[int]:
    """Its history holds updates: side by side, failed, one at the end of the body."""
    got: list[int] = []
    over = asyncio.Event()

    async def take(n: int) -> int:
        got.append(await work(n))
        if n == 0:
            await fails(False)
        await hf.sleep(0.01)
        return sum(got)

    def leave() -> str:
        over.set()
        return str(hf.uuid())

    hf.handle(put, take)
    hf.handle(quit_, leave)
    await over.wait()
    await hf.handlers_finished()
    return got


@app.step(retry=ONCE)
async def part_or_fail(n: int) -> int:
    if n == 0:
        raise ValueError("nothing")
    return n


@app.workflow
async def part(n: int = 1) -> int:
    return await work(n) if n > 0 else await fails(True)


@app.workflow
async def waits_below() -> int:
    return await hf.wait_for(go)


@app.workflow
async def children() -> list[str]:
    """Its history holds children that complete, fail, are given up, and are talked to."""
    listener = await hf.start_child(waits_below.bind(), on_parent_close="cancel")
    got = [str(each) for each in await asyncio.gather(part(1), part(2))]
    try:
        await part(0)
    except hf.ChildFailed as failed:
        got.append(failed.status)
    try:
        async with asyncio.timeout(0.01):
            await waits_below()
    except TimeoutError:
        got.append("given up")
    listener.signal(go, 7)
    return [*got, listener.id, str(await listener.result())]


TOKENS: list[str] = []


@app.step(completes_later=True, retry=hf.Retry(max_attempts=2, initial=0.001))
async def completed_later(n: int) -> int:
    TOKENS.append(hf.completion_token())
    hf.complete_later()


@app.workflow
async def questions() -> list[Any]:
    """Its history holds answers, an escalation, time-outs, a loser, and a step others completed."""
    first, second = await asyncio.gather(
        hf.ask("first?", int, to="ada", details={"n": 1}),
        hf.ask("second?", str, name="other", escalate={"boss": 0.001}, timeout=3_600),
    )
    got: list[Any] = [first, second]
    got.append(await hf.ask("nobody?", timeout=0.001, default=None))
    try:
        await hf.ask("never?", float, timeout=0.001)
    except TimeoutError:
        got.append("late")
    racers = [asyncio.ensure_future(hf.ask(f"{n}?", int)) for n in (1, 2)]
    done, late = await hf.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    for each in late:
        each.cancel()
    return [*got, done[0].result(), await completed_later(4)]


@app.workflow
async def mapped() -> list[str]:
    """Its history holds fan-outs: of steps, in chunks, with failures, of children."""
    alone = await hf.map(part_or_fail, [1, 0, 2], limit=2, tolerate=1)
    together = await hf.map(part_or_fail, [3, 0, 4], chunk=2, tolerate=0.5)
    got = [str(item.value) if item.ok else "failed" for item in [*alone, *together]]
    return [*got, str(await hf.map(part, [5, 6]))]


@app.transaction(retry=hf.Retry(max_attempts=2, initial=0.001))
def kept(tx: hf.Transaction, n: int) -> int:
    tx.execute("CREATE TABLE IF NOT EXISTS replay_rows (n INTEGER)")
    tx.execute("INSERT INTO replay_rows VALUES (:n)", n=n)
    if n == 3 and hf.attempt() == 1:
        raise ValueError("first")
    return len(tx.execute("SELECT n FROM replay_rows"))


@app.workflow
async def transactions() -> list[int]:
    """Its history holds transactions: alone, beside a step, tried again, before a note."""
    got = [await kept(1), *await asyncio.gather(kept(2), work(7), kept(3))]
    return [*got, await kept(4) if hf.patched("four") else 0]


@app.entity(name="entity", continue_after=5)
@dataclass
class Tally:
    key: str
    seen: list[int] = field(default_factory=list)

    @hf.update
    async def add(self, n: int) -> int:
        self.seen.append(await work(n))
        if n < 0:
            raise ValueError("no")
        return len(self.seen)

    @hf.update
    async def stop(self) -> None:
        hf.end_entity()


@app.step(queue="elsewhere", retry=hf.Retry(max_attempts=3, initial=0.01, jitter=False))
async def job(n: int) -> int:
    return await flaky.plain(n)


@app.workflow
async def jobs() -> list[int]:
    """Done as jobs: at once, after a failure, given up, and by a call that says so."""
    first = await job(1)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await never.options(queue="elsewhere")()
    return [first, *await asyncio.gather(job(2), work(3), work.options(queue="elsewhere")(4))]


@app.workflow
async def forked() -> list[object]:
    """Its history is shared up to the second step, whose result was edited; chance is in both."""
    drawn = [hf.uuid().hex[:4], hf.random().randrange(1_000)]
    first = await identify(f"{drawn[0]} {hf.uuid().hex[:4]}")
    second = await work(len(first))
    return [first, second, await identify(hf.uuid().hex[:4]), hf.random().randrange(1_000)]


@app.workflow
async def scheduled(is_new: bool = True) -> list[str]:
    """Its history begins with the slot of a schedule, and keeps it when it continues."""
    first = await identify(str(hf.scheduled_at()))
    if is_new:
        hf.continue_as_new(scheduled.bind(False))
    return [first, await identify(f"{hf.scheduled_at():%M}")]


graph = app.graph("graph")


@graph.node
async def begin(state: hf.State) -> hf.State:
    return state.set("n", state["n"] + 1)


@graph.node(body=True)
async def left(state: hf.State) -> dict[str, object]:
    await hf.sleep(0.01)
    return {"left": await work(state["n"])}


@graph.node
def right(state: hf.State) -> dict[str, object]:
    return {"right": state["n"] * 10}


def more(state: hf.State) -> str:
    return "again" if state["n"] < 2 else "on"


graph.add_node("split", begin).add_map("each", work, over=lambda state: [1, 2], into="all")
graph.add_edge(hf.START, "begin").add_edge("begin", "split", hf.key_equals("n", 9))
graph.add_conditional_edge("begin", more, {"again": "begin", "on": "split"})
graph.add_fork("split", [left, right], join="each")
graph.add_edge(left, "each").add_edge(right, "each").add_edge("each", hf.END)


marked = app.graph("marked", checkpoint=hf.CheckpointConfig(interval=2))
marked.add_node("begin", begin).add_edge(hf.START, "begin")
marked.add_edge("begin", hf.END, hf.key_equals("n", 3)).add_edge("begin", "begin")


def lined_up(
    graph: hf.StateGraph[hf.State], runtime: hf.Runtime, params: Mapping[str, Any]
) -> hf.State:
    """A factory: as many nodes as its parameter says."""
    names = [f"node {n}" for n in range(params["nodes"])]
    for name in names:
        graph.add_node(name, begin)
    for one, two in itertools.pairwise(names):
        graph.add_edge(one, two)
    graph.set_entry_point(names[0]).set_exit_point(names[-1])
    return hf.State({"n": 0})


app.factories.register("lined_up", lined_up)


edited = app.graph("edited")
"""Its history is shared up to a body in a branch, whose state was edited; chance is around it."""


@edited.node(body=True)
async def draws(state: hf.State) -> dict[str, object]:
    return {"drawn": [*state.get("drawn", []), hf.random().randrange(1_000)]}


@edited.node(body=True)
async def rests(state: hf.State) -> dict[str, object]:
    await hf.sleep(0.01)
    return {"rested": hf.random().randrange(1_000)}


edited.add_node("again", draws, body=True).add_node("begin", begin).add_node("end", begin)
edited.add_edge(hf.START, "begin").add_fork("begin", ["draws", "rests"], join="end")
edited.add_edge("draws", "again").add_edge("again", "end").add_edge("rests", "end")
edited.add_edge("end", hf.END)


NOT_YET = (hf.State({"n": 0}),)
GIVEN: dict[str, tuple[Any, ...]] = {"entity": ("a", None), "graph": NOT_YET, "marked": NOT_YET}
GIVEN["lined_up"], GIVEN["edited"] = ({"nodes": 3},), NOT_YET


@app.workflow
async def processed() -> list[object]:
    """Does items side by side, one of which fails; in a chain; and by one of two ways."""
    found = await hf.process_parallel([1, -1, 2], positive, hf.ParallelConfig(fail_fast=False))
    chained = await hf.process_chain(found.results, 0, add_up)
    chosen = await hf.process_conditional(chained.final, parity, {"odd": work, "even": positive})
    return [*found.results, *(each.index for each in found.errors), chosen]


@app.step(retry=ONCE)
async def positive(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return n


async def add_up(n: int, total: int) -> int:
    return total + await work(n)


def parity(n: int) -> str:
    return "odd" if n % 2 else "even"


@app.step(cache=hf.Cache(3600))
async def looked_up(n: int) -> int:
    return n * 2


@app.workflow
async def cached() -> list[int]:
    """Asks twice for the same: the second answer is from the cache, alone and among others."""
    first = await looked_up(1)
    return [first, *await asyncio.gather(looked_up(1), looked_up(2), work(3), looked_up(1))]


FEATURES = {
    "steps": ("steps",),
    "retries": ("retries", "failures"),
    "timers": ("timers", "timeout", "wait_for"),
    "signals": ("signals",),
    "gather and TaskGroup": ("groups", "losers"),
    "locks and queues": ("locks",),
    "chance": ("chance",),
    "cancel with clean-up": ("cancelled",),
    "patched": ("patched", "unpatched"),
    "get_version and deprecate_patch": ("get_version", "unpatched"),
    "a run that was reopened": ("reopened", "owed", "rerun"),
    "sagas": ("sagas", "owed"),
    "continue-as-new": ("continued", "entity"),
    "entities": ("entity",),
    "updates": ("updates",),
    "fan-out": ("mapped",),
    "children": ("children", "part", "waits_below"),
    "questions and steps that others complete": ("questions",),
    "transactions": ("transactions",),
    "a fork": ("forked",),
    "jobs": ("jobs",),
    "a slot of a schedule": ("scheduled",),
    "a graph": ("graph", "marked"),
    "a graph by a factory": ("lined_up",),
    "a fork with another state": ("edited",),
    "items in parallel, in a chain, by routes": ("processed",),
    "results from the cache": ("cached",),
}
"""What a body can do, and the workflows whose histories show it."""
FORKED = ("forked", "edited")

SETTINGS = hf.Settings(poll=0.05, drain=0.1, paranoid=True)


async def record(folder: Path, *, only_missing: bool = False) -> None:
    """Run every workflow on this interpreter and write what the store holds of it."""
    names = [name for name in app.workflows if not (only_missing and _file(folder, name).exists())]
    for name in names:
        release = former if name in former.workflows else app
        async with release.open("memory://", settings=SETTINGS) as client:
            given = GIVEN.get(name, ())
            if name == "scheduled":
                await client.schedules.create("s", scheduled.bind(), hf.Schedule(every=3600))
                run = client.get(await client.schedules.trigger("s", key="now"))
            else:
                run = await client.start(release.workflows[name].bind(*given), id=_id(name))
            await _steer(name, run, client)
            if name == "forked":
                run = await run.fork(results={"work#1": 7}, id=name)
            if name == "edited":
                run = await hf.Checkpoints(client, run.id).fork("draws", {"n": 7}, id=name)
            events = [event async for event in run.events()]
        document = {
            "workflow": name,
            "python": platform.python_version(),
            "holdfast": hf.__version__,
            "events": [_document(event) for event in events],
        }
        text = json.dumps(document, indent=1)
        _file(folder, name).write_text(text + "\n", encoding="utf-8")


async def _steer(name: str, run: "hf.RunHandle[Any]", client: hf.Client) -> None:
    """Send the run what its history is about."""
    global BROKEN
    if name == "waits_below":
        await run.signal(go, 1)
    if name == "signals":
        await run.signal(go, 1)
        await run.signal(go, 2)
    if name == "entity":
        for n in (1, 2, -3, 4):
            with contextlib.suppress(hf.UpdateFailed):
                await run.update("add", {"n": n})
        await run.update("stop", {})
    if name == "continued":
        for n in range(3):
            await run.signal(go, n)
    if name == "cancelled":
        await run.cancel()
    if name in FORKED:
        await run.result()
    if name == "rerun":
        await run.signal(go, 4)
        await run.result()
        await run.rerun("work#1")
    if name == "updates":
        await asyncio.gather(run.update(put, 1), run.update(put, 2))
        with contextlib.suppress(hf.UpdateFailed):
            await run.update(put, 0)
        await run.update(put, 3, wait="accepted")
        await run.update(quit_)
    if name in ("reopened", "owed"):
        BROKEN = True
        with contextlib.suppress(hf.RunFailed):
            await run.result()
        BROKEN = False
        await run.retry()
    if name == "questions":
        await _answer(run, client)


async def _answer(run: "hf.RunHandle[Any]", client: hf.Client) -> None:
    async def asked(key: str, to: str = "") -> bool:
        return key in [each.key for each in (await client.questions(to=to)).questions]

    await until(lambda: asked("other#1", to="boss"))
    await run.answer("other#1", "yes", by="boss")
    await run.answer("ask#1", 1, by="ada")
    await until(lambda: asked("ask#5"))
    await run.answer("ask#5", 5)
    await until(lambda: len(TOKENS) == 1)
    await client.fail(TOKENS[0], "Broken")
    await until(lambda: len(TOKENS) == 2)
    await client.complete(TOKENS[1], 4)


def _id(name: str) -> str:
    return "origin" if name in FORKED else name


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def replay(path: Path) -> str:
    """Replay one history; return how it ended. Raises `ReplayMismatch`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    workflow = app.workflows[document["workflow"]]
    events = tuple(map(_event, document["events"]))
    close = events[-1]
    assert CLASS_OF[close.kind] == "close", f"{path.name} is the history of no closed run"
    run = Run(
        "default", workflow.name, workflow.name, "", "running", "", close.generation, close.epoch,
        close.seq, None, None, 0, 0, 0, 0, b"", events[0].at, close.at, close.at,
    )  # fmt: skip
    ended = testing.replay(workflow, Loaded(run, events, ())).ended
    assert f"run.{ended}" == close.kind
    return close.kind


def _document(event: Event) -> dict[str, Any]:
    fields = event._asdict()
    for name in ("payload", "digest"):
        if fields[name] is not None:
            fields[name] = base64.b64encode(fields[name]).decode()
    return {name: value for name, value in fields.items() if value not in (None, 0, "")}


def _event(fields: dict[str, Any]) -> Event:
    stored: dict[str, Any] = {
        name: base64.b64decode(value) if name in ("payload", "digest") else value
        for name, value in fields.items()
    }
    return Event(**stored)


def main(verb: str, *folders: str) -> None:
    if verb in ("add", "record"):
        asyncio.run(record(Path(folders[0]), only_missing=verb == "add"))
        return
    if verb == "shapes":
        for name, workflow in app.workflows.items():
            print(name, workflow.shape.hex())
        return
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.json")):
        print(path.stem, replay(path))


if __name__ == "__main__":
    from tests.replay import flows

    flows.main(*sys.argv[1:])
