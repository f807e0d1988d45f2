"""A store in which something of everything waits, and how all of it ends."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import holdfast as hf
from holdfast.compose import open_client, store_of
from holdfast.errors import RunCompensationFailed, RunFailed
from holdfast.model.annotations import LogFilter
from holdfast.model.jobs import JobClaim
from holdfast.model.writes import Claim
from holdfast.ports.inspection import InspectedStore
from tests.engine.places import FAST, status_of, until, within

app = hf.App("moving")
word = hf.Signal("word", str)
RING = hf.KeyRing({"k": hf.KeyRing.new_key()})
app.queue("narrow", concurrency=1, rate=hf.Rate(100, per=timedelta(hours=1)))


@app.step
async def note(text: str) -> str:
    hf.log.info("noted %s", text)
    return text.upper()


@app.step
async def forget(text: str | None) -> None:
    """What undoes a note."""


@app.step(completes_later=True)
async def ask_elsewhere(run: str) -> int:
    hf.log.info("token %s", hf.completion_token())
    hf.complete_later()


@app.workflow
async def nap(seconds: float) -> str:
    await hf.sleep(timedelta(seconds=seconds))
    return await note("awake")


@app.workflow
async def listen(times: int) -> list[str]:
    return [await note(await hf.wait_for(word)) for _ in range(times)]


@app.workflow
async def approve(what: str) -> bool:
    return await hf.ask(f"{what}?", bool, to="ada")


@app.workflow
async def parent(name: str) -> list[str]:
    return await listen.options(id="child")(1)


@app.workflow
async def trip(place: str) -> str:
    async with hf.saga() as saga:
        await saga.do(note(place), undo=forget)
        if await hf.wait_for(word) == "no":
            raise ValueError("not this time")
    return place


@app.workflow
async def total(until: int, so_far: str = "") -> str:
    while len(so_far) < until:
        so_far += await hf.wait_for(word)
        if len(so_far) == 1:
            hf.continue_as_new(total.bind(until, so_far))
    return so_far


@app.step(queue="gpu")
async def render(film: str) -> str:
    return film.upper()


@app.workflow
async def produce(film: str) -> str:
    return await render(film)


@app.step(cache=hf.Cache(3_600))
async def rate(currency: str) -> str:
    """Tell who made the result: a later call uses that of an earlier one."""
    return hf.idempotency_key()


@app.workflow
async def price(currency: str) -> str:
    return await rate(currency)


@app.step(secrets=["pen"])
async def sign(text: str) -> int:
    return len(hf.secret("pen").reveal() + text)


@app.workflow
async def letter(secret: str) -> int:
    return await sign(await hf.wait_for(word))


@app.workflow
async def elsewhere(run: str) -> int:
    return await ask_elsewhere(run)


@app.entity
@dataclass
class Counter:
    key: str
    count: int = 0

    @hf.update
    async def add(self, n: int) -> int:
        self.count += n
        return self.count


def opened(url: str, *, worker: bool = True, queues: Any = None) -> Any:
    settings: dict[str, Any] = {**FAST, "keep": 0.1, "queues": queues}
    return open_client(app, url, worker=worker, settings=hf.Settings(**settings), keys=RING)


def store_at(url: str) -> InspectedStore:
    return cast("InspectedStore", store_of(url, keys=RING))


async def fill(url: str) -> None:
    """Leave runs that wait for something of every kind, unread messages, a run in dead hands."""
    async with opened(url, queues=["default", "narrow"]) as client:
        await _begin(client)
    async with opened(url, worker=False) as client:
        # Nobody reads these before the move.
        await client.get("listening").signal(word, "b", id="second")
        await client.get("child").signal(word, "c", id="child's")
        await client.start(listen.bind(1), id="abandoned", tags=["dead"])
    store = store_at(url)
    await store.open()
    claim = Claim("default", "a-dead-worker", ("listen", "nap"), 10, 1)
    assert "abandoned" in [run.id for run in (await store.claim(claim)).runs]
    jobs = await store.jobs.claim(JobClaim("default", "a-dead-worker", ("render",), 10, 1))
    assert [job.run for job in jobs.jobs] == ["producing"]
    await store.close()


async def _begin(client: hf.Client) -> None:
    labels: dict[str, Any] = {"customer": "42", "cents": 4900, "share": 0.1, "new": True}
    start = client.start
    runs = [
        await start(nap.bind(4.0), id="napping", tags=["vip", "slow"], attributes=labels),
        await start(listen.bind(2), id="listening"),
        await start(approve.bind("go"), id="approving"),
        await start(parent.bind("p"), id="parent"),
        await start(trip.bind("rome"), id="trip"),
        await start(total.bind(3), id="total"),
        await start(produce.bind("up"), id="producing"),
        await start(elsewhere.bind("elsewhere"), id="elsewhere"),
        await start(letter.bind("kept"), id="letter", secrets={"pen": hf.Secret("quill-4711")}),
    ]
    slow: dict[str, Any] = {"queue": "narrow"}
    await status_of(await start(listen.bind(1), id="first", **slow), "waiting")
    await start(listen.bind(1), id="next", **slow)  # stands in line until the first has ended
    await client.schedules.create("weekly", nap.bind(0.0), hf.Schedule(cron="0 7 * * MON"))
    await client.schedules.pause("weekly", note="holidays")
    done = await start(nap.bind(0.0), id="done")
    assert await within(done.result()) == "AWAKE"
    await within((await start(price.bind("USD"), id="priced")).result())
    await client.get("listening").signal(word, "a", id="first")
    await client.get("total").signal(word, "x")
    assert await within(client.entity(Counter, "e").update(Counter.add, 2)) == 2

    async def has_read() -> bool:
        rows = [(await client.get(id).describe()) for id in ("listening", "total")]
        return all(row.inbox_read for row in rows)

    await until(has_read)
    for run in runs:
        await status_of(run, "waiting", "completed")  # a nap may be over
    await client.get("listening").fork(id="fork")
    await status_of(client.get("fork"), "waiting")


async def finish(url: str) -> dict[str, Any]:
    """Let all of it end; return what came of each."""
    [token] = [line.removeprefix("token ") for line in await lines_of(url, "elsewhere")]
    async with opened(url) as client:
        await client.get("approving").answer("ask#1", True, by="ada")
        await client.get("trip").signal(word, "no")
        await client.get("fork").signal(word, "f")
        await client.get("letter").signal(word, "dear")
        await client.get("abandoned").signal(word, "d")
        for text in ("y", "z"):
            await client.get("total").signal(word, text)
        await client.complete(token, 7)
        await client.start(price.bind("USD"), id="priced-again")
        again = await client.get("listening").signal(word, "b", id="second")
        assert (await client.schedules.get("weekly")).note == "holidays"
        weekly = await client.schedules.trigger("weekly", key="now")
        for id in ("first", "next"):
            await client.get(id).signal(word, id)
        ends = {
            id: await _end(client, id)
            for id in EXPECTED
            if id not in ("counter", "again", "weekly")
        }
        ends["counter"] = await within(client.entity(Counter, "e").update(Counter.add, 3))
        ends["again"], ends["weekly"] = again, await _end(client, weekly)
        return ends


async def _end(client: hf.Client, id: str) -> Any:
    try:
        return await within(client.get(id).result())
    except (RunFailed, RunCompensationFailed) as error:
        return error.code


EXPECTED: dict[str, Any] = {
    "napping": "AWAKE",
    "listening": ["A", "B"],
    "approving": True,
    "parent": ["C"],
    "child": ["C"],
    "trip": "HF301",
    "total": "xyz",
    "elsewhere": 7,
    "done": "AWAKE",
    "fork": ["A", "F"],
    "abandoned": ["D"],
    "counter": 5,
    "again": False,
    "producing": "UP",
    "letter": len("quill-4711dear"),
    "weekly": "AWAKE",
    "priced": "default/priced/1/rate#1",
    "priced-again": "default/priced/1/rate#1",
    "first": ["FIRST"],
    "next": ["NEXT"],
}
"""What came of each. A message that was sent before the move counts once after it."""


async def lines_of(url: str, run: str) -> list[str]:
    """Return the run's log."""
    store = store_at(url)
    await store.open()
    try:
        return [line.message for line in await store.logs(LogFilter("default", run))]
    finally:
        await store.close()
