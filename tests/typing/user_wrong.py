"""A user's mistakes. Both type checkers must refuse each marked line, and no other line."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal

import holdfast as hf
from holdfast.testing import Driven, crashtest, fake, replay


@dataclass
class Order:
    id: str


@dataclass
class Receipt:
    order: str


@dataclass
class Approval:
    by: str


app = hf.App("shop")
approved = hf.Signal("approved", Approval)
status = hf.Query("status", str)
item = hf.Query("item", str, int)
add = hf.Update("add", Order, int)


hf.Cache()  # wrong: say when it expires
hf.Cache("1h")  # wrong: seconds or a timedelta
hf.Cache(60, key=len)  # wrong: a key is a text
app.step(cache=60)  # wrong: a Cache


@app.step(timeout=30)
async def charge(order: Order, *, currency: str = "EUR") -> Receipt:
    return Receipt(order.id + currency)


@app.transaction
def book(tx: hf.Transaction, order: Order) -> Receipt:
    tx.commit()  # wrong: a transaction ends by itself
    return Receipt(order.id)


@app.transaction(on=hf.SqliteWitness("a.db"))  # wrong: the function takes another connection
def enter(tx: hf.Transaction, order: Order) -> None: ...


async def books(order: Order) -> None:
    await book(order, 5)  # wrong: an argument too many for a transaction
    await book("lamp")  # wrong: a transaction with an argument of another type
    text: str = await book(order)  # wrong: the result of a transaction
    print(text)


@app.step
def price(order: Order) -> Decimal:
    return Decimal(len(order.id))


@app.workflow
async def checkout(order: Order, gift: bool = False) -> Receipt:
    return await charge(order) if gift else Receipt(order.id)


def not_async(order: Order) -> Receipt:
    return Receipt(order.id)


async def steps(order: Order) -> None:
    await charge("order-42")  # wrong: an argument of another type
    await charge()  # wrong: a missing argument
    await charge(order, "USD")  # wrong: a keyword-only argument by position
    await charge(order, amount=3)  # wrong: a keyword the function does not take
    await price("order-42")  # wrong: an argument of another type, to a sync step
    number: int = await charge(order)  # wrong: the result is of another type
    total: Decimal = price(order)  # wrong: a sync step gives a coroutine too
    charge(order).order.upper()  # wrong: the result is used without await
    charge(order)  # wrong: the call is never awaited
    pair: tuple[Receipt, str] = await asyncio.gather(charge(order), price(order))  # wrong: gather
    print(number, total, pair)


async def options(order: Order) -> None:
    charge.options(timeout="5 s")  # wrong: a duration is seconds or a timedelta
    charge.options(timeot=5)  # wrong: no such option
    await charge.options(timeout=5)("order-42")  # wrong: an argument after options
    number: int = await price.options(timeout=5)(order)  # wrong: the result after options
    print(number)


async def plain(order: Order) -> None:
    await charge.plain("order-42")  # wrong: an argument of the bare function
    await price.plain(order)  # wrong: the bare sync function gives no coroutine
    print(charge.plain(order).order)  # wrong: the bare async function gives a coroutine


def definitions() -> None:
    app.workflow(not_async)  # wrong: a workflow is async
    app.workflow(version=2)  # wrong: a version is text
    app.step(retry=5)  # wrong: retries are a Retry
    app.step(raises=[Order])  # wrong: what is raised is an Exception


async def bodies(order: Order) -> None:
    number: int = await hf.wait_for(approved)  # wrong: the signal's value is of another type
    await hf.wait_for("approved")  # wrong: a signal is declared, not named
    await checkout(order, gift="yes")  # wrong: an argument of a workflow
    await checkout.options(id=42)(order)  # wrong: an id is text
    await checkout.options(on_parent_close="kill")(order)  # wrong: no such policy
    await checkout.options(id="a")("order-42")  # wrong: an argument of a workflow
    await hf.map(checkout, ["order-42"])  # wrong: items of another type
    await hf.map(checkout, [order], limit="5")  # wrong: a limit is a number
    await hf.start_child(checkout)  # wrong: a child is started bound to its input
    child = await hf.start_child(checkout.bind(order))
    other: int = await child.result()  # wrong: the result of a child
    child.signal(approved, "yes")  # wrong: the signal's value is of another type
    print(other)
    print(number)


@app.step
async def refund(receipt: Receipt | None) -> None:
    print(receipt)


@app.step
async def refund_surely(receipt: Receipt) -> None:
    print(receipt)


@app.step
async def cancel_delivery(parcel: str | None) -> None:
    print(parcel)


async def sagas(order: Order) -> None:
    async with hf.saga() as saga:
        await saga.do(charge(order))  # wrong: a call without its undo
        await saga.do(charge, undo=refund)  # wrong: a step instead of its call
        await saga.do(charge(order), undo=refund_surely)  # wrong: an undo that cannot take None
        await saga.do(charge(order), undo=cancel_delivery)  # wrong: an undo of something else
        await saga.do(charge(order), undo=refund(None))  # wrong: a call instead of an undo
        await saga.do(charge(order), undo=print)  # wrong: an undo that cannot be awaited
        saga.do(charge(order), undo=refund)  # wrong: the call is never awaited
        number: int = await saga.do(charge(order), undo=refund)  # wrong: the result of do
        print(number)
    with hf.saga():  # wrong: a saga is entered with async with
        pass


async def continuing(order: Order) -> None:
    hf.continue_as_new(checkout)  # wrong: a workflow without its input


async def continuing_too(order: Order) -> None:
    hf.continue_as_new(checkout.bind("order-42"))  # wrong: another input


@app.workflow
async def asks(order: Order) -> None:
    hf.ask("ok?")  # wrong: a question is never awaited
    number: int = await hf.ask("ok?", str)  # wrong: the answer is of another type
    sure: bool = await hf.ask("ok?", bool, timeout=5, default=None)  # wrong: the default is another
    await hf.ask("ok?", escalate=[("boss", 5)])  # wrong: who is asked after how long
    await hf.ask("ok?", to=5)  # wrong: who is asked has a name
    print(number, sure)


async def answers(client: hf.Client, run: hf.RunHandle[Receipt]) -> None:
    await run.answer(True)  # wrong: an answer without the key of its question
    await client.complete(5, 1)  # wrong: a token is text
    await client.fail("token", ValueError)  # wrong: an error is given by its name
    token: int = hf.completion_token()  # wrong: a token is text
    print(token)


@app.entity
@dataclass
class Cart:
    n: int = 0

    @hf.update
    async def add(self, item: str) -> int:
        return len(item)

    @add.validator  # wrong: a validator that takes something else
    def _check(self, item: int) -> None:
        print(item)

    @hf.query
    def count(self) -> int:
        return self.n

    @hf.update  # wrong: an update that is no coroutine
    def clear(self) -> None:
        self.n = 0


async def entities(client: hf.Client) -> None:
    cart = client.entity(Cart, "ada")
    await cart.update(Cart.add, 5)  # wrong: an argument of another type
    await cart.update(Cart.count)  # wrong: a query is no update
    await cart.query(Cart.add, "lamp")  # wrong: an update is no query
    text: str = await cart.update(Cart.add, "lamp")  # wrong: the result of an update
    print(text)
    client.entity(Cart, 5)  # wrong: a key is text


async def clients(order: Order) -> None:
    checkout.bind("order-42")  # wrong: an input of another type
    checkout.bind()  # wrong: a missing input
    checkout.bind(order, id="order-42")  # wrong: options of a run do not belong to bind
    async with app.open("memory://") as client:
        await client.start(checkout)  # wrong: a workflow is started bound to its input
        await client.start(checkout.bind(order), id=42)  # wrong: an id is text
        run = await client.start(checkout.bind(order))
        number: int = await run.result()  # wrong: the result of the run is of another type
        await run.signal(approved, "ada")  # wrong: the value of a signal is of another type
        await run.signal(approved)  # wrong: a signal without its value
        await run.signal(approved, Approval("ada"), id=1)  # wrong: a message's id is text
        other: int = await client.get("a", checkout).result()  # wrong: the result of a run found
        print(number, other)
    app.open("memory://").start(checkout.bind(order))  # wrong: open gives a context manager


async def talking(order: Order, client: hf.Client) -> None:
    hf.handle(status, lambda: 5)  # wrong: a query's handler returns something else
    hf.handle(item, lambda: 5)  # wrong: a query's handler takes no argument
    hf.handle(status, lambda: "a", validate=lambda: None)  # wrong: a query with a validator
    hf.handle(add, charge)  # wrong: an update's handler returns something else
    hf.handle(add, lambda order: 5, validate=print)  # right: it takes anything
    hf.handle("add", charge)  # wrong: an update is declared, not named
    run = client.get("a", checkout)
    number: int = await run.query(status)  # wrong: the answer of a query is of another type
    await run.query(item)  # wrong: a query without its argument
    await run.query(status, "a")  # wrong: a query that takes no argument
    await run.update(add, "lamp")  # wrong: the argument of an update is of another type
    text: str = await run.update(add, order)  # wrong: the result of an update is of another type
    await run.update(add, order, wait="done")  # wrong: nothing to wait for
    add.bind("lamp")  # wrong: an update bound to another type
    approved.bind(5)  # wrong: a signal bound to another type
    await client.update_with_start(checkout.bind(order), add, id="a")  # wrong: an update unbound
    bound = checkout.bind(order)
    await client.signal_with_start(bound, add.bind(order), id="a")  # wrong: no signal
    await client.update_with_start(checkout.bind(order), add.bind(order))  # wrong: without an id
    print(number, text)


class Blocks:
    def on_event(self, event: hf.ObservedEvent) -> None: ...


app.observe(Blocks())  # wrong: an observer that would block
app.observe(print)  # wrong: no observer


async def pays(run: Driven) -> None:
    await run.signal(approved, 5)  # wrong: the value of a signal in a story


def tests(order: Order) -> None:
    fake(price, returns="5")  # wrong: a fake returns what the step does
    fake(price, does=lambda: Decimal(1))  # wrong: a fake takes what the step does
    fake(price)  # wrong: a fake is told what to do
    crashtest(checkout)  # wrong: a workflow is crashed with its input
    crashtest(checkout.bind(order), store="mysql")  # wrong: there is no such store
    number: int = replay(checkout, {}).result  # wrong: the result of a replay
    print(number)


def secrets() -> None:
    hf.App("shop", secrets={"token": "plain"})  # wrong: a dict provides no secrets
    hf.Secret(b"plain")  # wrong: a secret is a text
    text: str = hf.secret("token")  # wrong: a secret is revealed
    app.step(secrets=[5])  # wrong: secrets are listed by name
    print(text)


drawn = app.graph("drawn", state=Order)


def graphs() -> None:
    drawn.bind("lamp")  # wrong: a graph begins with its state
    drawn.add_edge(hf.START, hf.END, "always")  # wrong: a predicate is a function
    rules = {"n": "sum"}
    drawn.add_fork("a", ["b", "c"], join="d", merge=rules)  # wrong: there is no such rule
    app.graph("g", max_iterations="many")  # wrong: a number of nodes


async def doubles(n: int) -> int:
    return n * 2


async def processes() -> None:
    await hf.process_parallel(["a"], doubles)  # wrong: the items do not fit
    await hf.process_chain([1], 0, doubles)  # wrong: a processor takes the state, too
    hf.ParallelConfig(workers=5)  # wrong: there is no such setting
    hf.StateGraph("g")  # wrong: a graph of its own has a config
    hf.State().set_secret("token", 5)  # wrong: a secret is a text
