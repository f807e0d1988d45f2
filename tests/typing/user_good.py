"""A user's file. Both type checkers must accept all of it, and infer what `assert_type` says."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, assert_type

from sqlalchemy.orm import Session, sessionmaker

import holdfast as hf
from holdfast.testing import Driven, Fake, Replayed, crashtest, fake, replay, virtual


@dataclass
class Order:
    id: str
    amount: Decimal


@dataclass
class Receipt:
    order: str
    paid: Decimal


@dataclass
class Approval:
    by: str


class CardDeclined(Exception):
    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"declined: {code}")


app = hf.App("shop", namespace="eu", secrets=hf.ChainSecrets(hf.EnvSecrets(prefix="SHOP_")))
approved = hf.Signal("approved", Approval)


@app.step(
    name="charge-card",
    retry=hf.Retry(max_attempts=5, give_up_on=(CardDeclined,)),
    timeout=30,
    total_timeout=timedelta(minutes=10),
    raises=[CardDeclined],
)
async def charge(order: Order, *, currency: str = "EUR") -> Receipt:
    if order.amount > 1_000:
        raise CardDeclined(currency)
    return Receipt(order.id, order.amount)


def order_key(order: Order) -> str:
    return order.id


@app.step(cache=hf.Cache(expires=timedelta(hours=1), key=order_key, version="2"))
async def look_up(order: Order) -> Receipt:
    return Receipt(order.id, order.amount)


async def cache(order: Order, client: hf.Client) -> None:
    assert_type(await look_up(order), Receipt)
    assert_type(await look_up.options(cache=hf.Cache(None))(order), Receipt)
    assert_type(await look_up.options(cache=None)(order), Receipt)
    assert_type(await client.cache.list("look_up"), tuple[hf.CachedStep, ...])
    assert_type(await client.cache.forget("look_up", key=order.id), int)
    with app.open_sync("memory://") as sync:
        assert_type(sync.cache, hf.SyncStepCache)
        assert_type(sync.cache.forget("look_up"), int)


@app.transaction
def book(tx: hf.Transaction, order: Order, *, note: str = "") -> Receipt:
    rows = tx.execute("SELECT :note AS note", note=note)
    assert_type(rows, list[dict[str, Any]])
    return Receipt(order.id, order.amount)


@app.transaction(timeout=1, retry=hf.Retry(max_attempts=2), raises=[CardDeclined])
def unbook(tx: hf.Transaction, receipt: Receipt | None) -> None: ...


books = hf.SqliteWitness("books.db")


@app.transaction(on=books, raises=[CardDeclined])
def enter(connection: sqlite3.Connection, cents: int) -> int:
    return connection.execute("SELECT ?", (cents,)).rowcount


@app.transaction(on=hf.SqlAlchemyWitness(sessionmaker()))
def enter_elsewhere(session: Session, cents: int) -> int:
    return cents


async def entered() -> None:
    assert_type(await enter(5), int)
    assert_type(await enter_elsewhere(cents=5), int)


async def booked(order: Order) -> tuple[Receipt, str]:
    assert_type(await book(order, note="a"), Receipt)
    both = await asyncio.gather(book(order), ship(order))
    assert_type(both, tuple[Receipt, str])
    assert_type(await hf.map(book, [order]), list[Receipt])
    async with hf.saga() as saga:
        assert_type(await saga.do(book(order), undo=unbook), Receipt)
    assert_type(await book.options(timeout=2)(order), Receipt)
    return both


@app.step
async def ship(order: Order) -> str:
    return f"parcel of {order.id}"


@app.step
def price(order: Order, discount: float = 0.0) -> Decimal:
    """A sync step: it runs on a thread, and calling it gives a coroutine all the same."""
    return order.amount * Decimal(1 - discount)


@app.step(timeout=timedelta(seconds=5))
def invoice(order: Order) -> int:
    return len(order.id)


@app.step(heartbeat_timeout=60)
async def scan(order: Order) -> int:
    assert_type(hf.last_heartbeat(int), int | None)
    hf.heartbeat(order)
    hf.log.info("scanned %s", order.id, extra={"order": order.id})
    return hf.last_heartbeat(int) or 0


@app.step()
async def notify(*lines: str, urgent: bool = False) -> None:
    print(*lines, urgent)


@app.workflow
async def checkout(order: Order) -> Receipt:
    try:
        receipt = await charge(order, currency="USD")
    except CardDeclined as declined:
        assert_type(declined.code, str)
        receipt = await charge.options(timeout=5, total_timeout=None, queue="far")(order)
        receipt = await charge.options(queue="far", queue_key="ada")(order)
    except hf.StepFailed as failed:
        await notify(failed.type, failed.message, urgent=True)
        raise
    assert_type(receipt, Receipt)
    assert_type(await hf.wait_for(approved, timeout=timedelta(days=2)), Approval)
    assert_type(await price(order, discount=0.1), Decimal)
    both = await asyncio.gather(ship(order), invoice(order))
    assert_type(both, tuple[str, int])
    async with asyncio.TaskGroup() as group:
        parcel = group.create_task(ship(order))
    assert_type(parcel.result(), str)
    await hf.sleep(timedelta(hours=1))
    return receipt


@app.step
async def refund(receipt: Receipt | None, *, fee: int = 0) -> None:
    print(receipt, fee)


@app.step
def scrap(order: Order, parcel: str | None) -> bool:
    return bool(parcel and order.id)


async def pack(order: Order) -> list[str]:
    return [await ship(order)]


async def unpack(parcels: list[str] | None) -> int:
    return len(parcels or [])


@app.workflow
async def careful(order: Order) -> Receipt:
    async with hf.saga() as saga:
        receipt = await saga.do(charge(order, currency="USD"), undo=refund)
        assert_type(receipt, Receipt)
        parcel = await saga.do(ship(order), undo=lambda parcel: scrap(order, parcel))
        assert_type(parcel, str)
        assert_type(await saga.do(pack(order), undo=unpack), list[str])
        await saga.do(charge(order), undo=refund.options(timeout=5))
        both = await asyncio.gather(
            saga.do(charge(order), undo=refund), saga.do(pack(order), undo=unpack)
        )
        assert_type(both, tuple[Receipt, list[str]])
        await added_by_a_helper(saga, order)
        return receipt


async def added_by_a_helper(saga: hf.Saga, order: Order) -> None:
    try:
        await saga.do(charge(order), undo=refund)
    except hf.CompensationFailed as error:
        assert_type(error.owed[0].key, str)


async def what_is_owed(run: hf.RunHandle[Receipt]) -> None:
    try:
        await run.result()
    except hf.RunCompensationFailed as error:
        assert_type([each.undo for each in error.owed], list[str])


@app.workflow
async def buys(order: Order) -> Receipt:
    child = await hf.start_child(checkout.bind(order), on_parent_close="abandon")
    assert_type(child, hf.Child[Receipt])
    child.signal(approved, Approval("Ada"))
    child.cancel("enough")
    called = await checkout.options(id="order-42", timeout=None, queue="far", priority=1)(order)
    assert_type(called, Receipt)
    assert_type(await asyncio.gather(checkout(order), ship(order)), tuple[Receipt, str])
    try:
        assert_type(await child.result(), Receipt)
    except hf.ChildFailed as failed:
        assert_type(failed.status, str)
    return called


@app.workflow
async def many(orders: list[Order]) -> int:
    assert_type(await hf.map(charge, orders), list[Receipt])
    assert_type(await hf.map(checkout, orders, limit=5), list[Receipt])
    assert_type(await hf.map(checkout.options(queue="far"), orders), list[Receipt])
    items = await hf.map(price, orders, tolerate=0.1, chunk=10)
    assert_type(items, list[hf.Item[Decimal]])
    return sum(item.ok for item in items)


@app.workflow(name="nightly", version="2")
async def close_day(day: str, *, dry: bool = False) -> None:
    if not dry:
        await notify("closing", day)


@app.workflow
async def poll(cursor: int, *, seen: int = 0) -> str:
    await hf.sleep(60)
    if hf.should_continue() or hf.history_length() > 100:
        hf.continue_as_new(poll.bind(cursor + 1, seen=seen + 1))
    if seen > 5:
        return hf.continue_as_new(poll.bind(cursor))
    return "done"


@app.entity(queue="carts", continue_after=1_000)
@dataclass
class Cart:
    items: dict[str, int] = field(default_factory=dict[str, int])

    @hf.update
    async def add(self, item: str, n: int = 1) -> int:
        self.items[item] = self.items.get(item, 0) + n
        return self.items[item]

    @add.validator
    def _is_some(self, item: str, n: int = 1) -> None:
        if n < 1:
            raise ValueError(item)

    @hf.update
    async def move(self, other: str) -> None:
        assert_type(await self.add(other, self.count()), int)
        hf.end_entity()

    @hf.query
    def count(self, item: str = "lamp") -> int:
        return self.items[item]


async def entities(client: hf.Client, door: hf.SyncClient) -> None:
    cart = client.entity(Cart, "ada")
    assert_type(cart, hf.EntityHandle[Cart])
    assert_type(await cart.update(Cart.add, "lamp", n=2), int)
    assert_type(await cart.options(id="once").update(Cart.add, "lamp"), int)
    await cart.update(Cart.move, "desk")
    assert_type(await cart.query(Cart.count), int)
    assert_type(door.entity(Cart, "ada").update(Cart.add, "lamp"), int)
    assert_type(door.entity(Cart, "ada").query(Cart.count, "lamp"), int)


def bare_functions_keep_their_own_types(order: Order) -> None:
    assert_type(price.plain(order), Decimal)
    assert_type(price.plain(order, discount=0.5), Decimal)
    made: Coroutine[Any, Any, Receipt] = charge.plain(order, currency="USD")
    made.close()


async def called_outside_a_body(order: Order) -> None:
    assert_type(await charge(order), Receipt)
    assert_type(await price(order), Decimal)
    assert_type(await checkout(order), Receipt)
    assert_type(await invoice.options(retry=hf.Retry(max_attempts=1))(order), int)


async def a_step_is_a_function_to_others(order: Order) -> None:
    async def twice(step: Callable[[Order], Coroutine[Any, Any, str]]) -> list[str]:
        return [await step(order), await step(order)]

    assert_type(await twice(ship), list[str])
    assert_type(await twice(ship.options(timeout=1)), list[str])


status = hf.Query("status", str)
receipt_of = hf.Query("receipt_of", str, Receipt)
add = hf.Update("add", Order, list[str])
close = hf.Update("close", int)


@app.workflow
async def talks(order: Order) -> int:
    async def put(item: Order) -> list[str]:
        return [await ship(item)]

    def check(item: Order) -> None:
        assert item.id

    hf.handle(status, lambda: "open")
    hf.handle(receipt_of, lambda name: Receipt(name, Decimal(1)))
    hf.handle(add, put, validate=check)
    hf.handle(close, lambda: 7, validate=lambda: None)
    await hf.handlers_finished()
    return 1


async def talking(order: Order, client: hf.Client, door: hf.SyncClient) -> None:
    assert_type(status, hf.Query[None, str])
    assert_type(receipt_of, hf.Query[str, Receipt])
    assert_type(close, hf.Update[None, int])
    run = client.get("talk", talks)
    assert_type(await run.query(status), str)
    assert_type(await run.query(receipt_of, "a"), Receipt)
    assert_type(await run.update(add, order, id="u-1"), list[str])
    assert_type(await run.update(close), int)
    accepted = await run.update(add, order, wait="accepted")
    assert_type(accepted, hf.UpdateHandle[list[str]])
    assert_type(await accepted.result(), list[str])
    bound = talks.bind(order)
    assert_type(await client.signal_with_start(bound, approved.bind(Approval("a")), id="t"),
                hf.RunHandle[int])  # fmt: skip
    assert_type(await client.update_with_start(bound, add.bind(order), id="t"), list[str])
    handle = await client.update_with_start(
        bound, close.bind(), id="t", wait="accepted", tags=["a"]
    )
    assert_type(handle, hf.UpdateHandle[int])
    assert_type(door.get("talk").query(receipt_of, "a"), Receipt)
    assert_type(door.get("talk").update(add, order), list[str])
    assert_type(door.get("talk").update(close, wait="accepted").result(), int)


class Verdict(Enum):
    YES = "yes"
    NO = "no"


@app.step(completes_later=True, timeout=60)
async def convert(order: Order) -> Receipt:
    assert_type(hf.completion_token(), str)
    assert_type(hf.callback_url(), str)
    hf.complete_later()


@app.workflow
async def asks(order: Order) -> Verdict:
    assert_type(await hf.ask("ok?"), bool)
    assert_type(await hf.ask("ok?", bool, to="ada", details=order), bool)
    assert_type(
        await hf.ask("ok?", Approval, escalate={"boss": 60, "board": timedelta(1)}), Approval
    )
    assert_type(await hf.ask("ok?", Verdict, timeout=60, default=None), Verdict | None)
    assert_type(await hf.ask("ok?", timeout=60, default="never"), bool | str)
    word: Literal["a", "b"] = await hf.ask("ok?", Literal["a", "b"], to=["ada", "bob"])
    assert_type(await convert(order), Receipt)
    assert_type(await asyncio.gather(hf.ask("a?"), hf.ask("b?", int)), tuple[bool, int])
    return Verdict(word)


async def answers(client: hf.Client, run: hf.RunHandle[Receipt]) -> None:
    page = await client.questions(to="ada", limit=5)
    assert_type(page, hf.QuestionList)
    assert_type(page.questions[0].key, str)
    assert_type(await run.answer("ask#1", Approval(by="ada"), by="ada"), bool)
    assert_type(await client.complete("token", 5), bool)
    assert_type(await client.fail("token", "Broken", "no", retry=False), bool)


@app.workflow
async def nightly(team: str) -> str:
    assert_type(hf.scheduled_at(), datetime | None)
    return team


async def schedules(client: hf.Client) -> None:
    times = hf.Schedule(cron="0 3 * * *", zone="Europe/Berlin", overlap=hf.Overlap.BUFFER_ONE)
    app.schedule("nightly", nightly.bind("ops"), times, queue="slow", tags=["night"])
    state = await client.schedules.create(
        "n", nightly.bind("ops"), hf.Schedule(every=60), priority=1
    )
    assert_type(state, hf.ScheduleState)
    assert_type(state.next, tuple[datetime, ...])
    assert_type(times.after(datetime(2026, 1, 1, tzinfo=UTC)), datetime | None)
    assert_type(await client.schedules.trigger("n", key="now"), str)
    assert_type(await client.schedules.list(), list[hf.ScheduleState])
    with app.open_sync("memory://") as sync:
        assert_type(sync.schedules, hf.SyncSchedules)
        assert_type(sync.schedules.pause("n").paused, bool)


async def main(order: Order) -> None:
    async with app.open("sqlite:///shop.db", worker=False) as client:
        run = await client.start(checkout.bind(order), id="order-42", queue="vip", priority=1)
        placed = await client.start(checkout.bind(order), queue_key="ada", queue_timeout=5, delay=1)
        assert_type(placed, hf.RunHandle[Receipt])
        assert_type(await client.queues.list(), tuple[hf.QueueState, ...])
        assert_type(app.queue("vip", concurrency=1, rate=hf.Rate(5, per=60)), str)
        assert_type(run, hf.RunHandle[Receipt])
        await run.signal(approved, Approval(by="ada"), id="approval-1")
        async for event in run.events():
            assert_type(event.key, str)
        assert_type(await run.result(), Receipt)

        assert_type(await run.rerun("charge#2", keep_keys=True, reason="torn"), Sequence[str])

        other = await run.fork("charge#2", results={"charge#1": Receipt("42", order.amount)})
        assert_type(await other.result(), Receipt)
        assert_type(await run.fork(input=checkout.bind(order)), hf.RunHandle[Receipt])
        assert_type(await client.diff("order-42@1", other.id), hf.Diff)

        assert_type(await client.get("order-42", checkout).result(), Receipt)
        await client.get("order-42").signal("approved", {"by": "ada"})

        night = await client.start(close_day.bind("2026-11-01", dry=True))
        assert_type(await night.result(), None)


class Watcher:
    async def on_event(self, event: hf.ObservedEvent) -> None:
        assert_type(event.seq, int)
        assert_type(event.event, hf.Event)


async def observes(order: Order) -> None:
    streaming = hf.StreamingObserver(buffer_size=5)
    app.observe(Watcher(), hf.LoggingObserver(), hf.MultiObserver(Watcher(), streaming))
    async for event in streaming.events("order-42", after=3):
        assert_type(event, hf.ObservedEvent)


async def pays(run: Driven) -> None:
    await run.sleep(60)
    await run.signal(approved, Approval(by="ada"))


def tests(order: Order) -> None:
    async def story(client: hf.Client) -> Receipt:
        return await (await client.start(checkout.bind(order))).result()

    assert_type(virtual.run(app, story), Receipt)
    with fake(ship, returns="shipped") as shipped:
        kept: Fake[[Order], str] = shipped
        assert_type(kept.calls[0].args, tuple[Any, ...])
        assert_type(len(shipped.calls), int)
    with fake(ship, raises=ConnectionError("no van")), fake(ship, does=lambda order: order.id):
        crashtest(checkout.bind(order), pays, loose=["ship"], store="sqlite", seed=1)
    assert_type(replay(checkout, "order-42.json"), Replayed[Receipt])
    assert_type(replay(checkout, {}).result, Receipt | None)


@app.step(secrets=["stripe-key"])
async def connect(account: str) -> str:
    key = hf.secret("stripe-key")
    assert_type(key, hf.Secret)
    assert_type(key.reveal(), str)
    return account


async def vault(name: str) -> str | None:
    return name


async def connected() -> None:
    assert_type(await connect("a"), str)


providers: list[hf.SecretProvider] = [
    hf.FileSecrets("/run/secrets"),
    hf.CallableSecrets(vault),
    hf.CallableSecrets({"a": hf.Secret("b")}.get),
]


@dataclass(frozen=True)
class Page:
    text: str = ""


drawn = app.graph("drawn", state=Page)


@drawn.node
async def reads(page: Page) -> Page:
    return page


@drawn.node(timeout=5, retry=hf.Retry(max_attempts=2))
def turns(page: Page) -> dict[str, str]:
    return {"text": page.text}


drawn.add_edge(hf.START, reads).add_edge(reads, turns, hf.key_exists("text"), name="has text")
drawn.add_conditional_edge(turns, lambda page: len(page.text), {0: hf.END, 1: reads})
loose = app.graph("loose")


async def walks(client: hf.Client) -> None:
    assert_type(drawn, hf.StateGraph[Page])
    assert_type(await reads(Page()), Page)
    assert_type(await (await client.start(drawn.bind(Page()))).result(), Page)
    assert_type(loose, hf.StateGraph[hf.State])
    assert_type(await (await client.start(loose.bind(hf.State()))).result(), hf.State)
    assert_type(hf.State({"a": 1}).set("b", 2).merge({"c": 3}), hf.State)
    async for told in hf.graph_events(client, "r", after="12.3", snapshots=False):
        assert_type(told, hf.ExecutionEvent)
        assert_type((told.type, told.seq, told.id), tuple[str, int, str])


async def halves(n: int) -> float:
    return n / 2


def adds(n: int, text: str) -> str:
    return text + str(n)


@app.step
async def weighs(n: int) -> str:
    return str(n)


async def processes() -> None:
    assert_type(await hf.process_parallel([1], halves), hf.ParallelResult[float])
    assert_type(await hf.process_parallel([1], weighs), hf.ParallelResult[str])
    assert_type(
        await hf.process_parallel([1], str, hf.default_parallel_config()), hf.ParallelResult[str]
    )
    assert_type((await hf.process_chain([1], "", adds)).final, str)
    assert_type(await hf.process_conditional(1, lambda n: "a", {"a": abs}), int)


async def executes(client: hf.Client) -> None:
    state = hf.State(run_id="tides").set_secret("token", hf.Secret("hunter22"))
    assert_type(state.get_secret("token"), hf.Secret | None)
    alone = hf.StateGraph(hf.default_graph_config("alone"))
    assert_type(await alone.execute(state), hf.State)
    paged = hf.StateGraph(hf.GraphConfig("paged", max_iterations=9), state=Page, priority=1)
    assert_type(await paged.execute(Page()), Page)
    assert_type(await drawn.resume("tides"), Page)
    store = hf.CheckpointConfig(interval=2, preserve=True, store="sqlite:///papers.db")
    config = hf.GraphConfig("given", checkpoint=store)
    assert_type(hf.new_graph_with_deps(config, hf.LoggingObserver()), hf.StateGraph[hf.State])
    await client.get("tides").rerun(7)
    events, run = await hf.Executor(client).execute("read", {"page": 1}, token="hunter22")
    assert_type(await run.result(), hf.State)
    assert_type([event async for event in events], list[hf.ExecutionEvent])
    assert_type(app.factories.list(), list[hf.WorkflowInfo])
