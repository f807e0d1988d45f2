"""Bad input, row by row: a typed error that says what to do, and nothing is stored."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.entry import root
from holdfast.errors import StoreSettings, StoreUnavailable, StoreVersion
from holdfast.testing import invariants
from tests.bad_input import flows
from tests.bad_input.flows import NAIVE, app, asks, go, loose, order
from tests.bad_input.rows import ROWS
from tests.engine.places import Place, within

DEEP: list[Any] = []
for _ in range(3_000):
    DEEP = [DEEP]
CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
CODE = re.compile(r"\[HF\d{3}\]$")


@dataclass(frozen=True)
class Case:
    """One bad input: what is done, the error it gives, and words of the message."""

    row: str
    name: str
    act: Callable[..., Any]
    error: type[hf.HoldfastError]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.row}-{self.name}".replace(" ", "_")


def started(*args: Any, **kwargs: Any) -> Callable[[hf.Client], Awaitable[Any]]:
    """Start an order, with these arguments to `bind`."""

    async def start(client: hf.Client) -> Any:
        return await client.start(order.bind(*args, **kwargs))

    return start


def given(value: Any) -> Callable[[hf.Client], Awaitable[Any]]:
    """Start a run with any value."""

    async def start(client: hf.Client) -> Any:
        return await client.start(loose.bind({"value": value}))

    return start


def named(id: Any) -> Callable[[hf.Client], Awaitable[Any]]:
    return lambda client: client.start(order.bind("lamp"), id=id)


def scheduled(spec: Any) -> Callable[[hf.Client], Awaitable[Any]]:
    """Make a schedule with these times."""

    async def create(client: hf.Client) -> Any:
        return await client.schedules.create("s", order.bind("lamp"), hf.Schedule(**spec))

    return create


async def first_after(client: hf.Client, after: Any) -> Any:
    return await anext(aiter(client.get("open").events(after=after)))


V, U, N, D = hf.InvalidValue, hf.Unserialisable, hf.InvalidName, hf.InvalidDuration
B, S = hf.BadDefinition, hf.SecretSerialisationError
HOURLY = hf.Schedule(every=3600)
TO_CLIENT = [
    Case("cache", "nothing to forget", lambda c: c.cache.forget(""), V, ("step", "names no step")),
    Case("cache", "number for a step", lambda c: c.cache.forget(5), V, ("step", "5", "255")),
    Case("cache", "number for a key", lambda c: c.cache.forget("s", key=5), V, ("key", "5")),
    Case("cache", "list of a number", lambda c: c.cache.list(5), V, ("step", "5")),
    Case("arguments do not fit", "missing", started(), hf.InvalidArguments, ("item", "cents: int")),
    Case("arguments do not fit", "extra", started("a", 1, 2), hf.InvalidArguments, ("too many",)),
    Case("arguments do not fit", "unknown", started("a", x=1), hf.InvalidArguments, ("'x'",)),
    Case("arguments do not fit", "wrong type", started(5), U, ("item", "int", "valid string")),
    Case("arguments do not fit", "text for int", started("a", "5"), U, ("cents", "str", "integer")),
    Case("arguments do not fit", "not bound", lambda c: c.start(order), B, ("order.bind(",)),
    Case("arguments do not fit", "called", lambda c: c.start(order("lamp")), B,
         ("a call of <workflow order>", "client.start(order.bind(")),
    Case("arguments do not fit", "other call", lambda c: c.start(asyncio.sleep(0)), B,
         ("<coroutine object sleep", "client.start(order.bind(")),
    Case("value too large", "argument", started("x" * 2_100_000), hf.PayloadTooLarge,
         ("arguments of order", "2,100,0", "2,097,152", "pass its address")),
    Case("value too large", "signal", lambda c: c.get("open").signal("go", "x" * 2_100_000),
         hf.PayloadTooLarge, ("signal go", "2,097,152")),
    Case("value too complex", "deep", given(DEEP), U, ("64", "Flatten")),
    Case("value too complex", "in itself", given(CYCLE), U, ("64", "cycle")),
    Case("value too complex", "digits", given(10**5_000), U, ("data.value", "4,300")),
    Case("value too complex", "keys", given({str(n): 0 for n in range(10_001)}), U,
         ("10,001 keys", "10,000", "list of pairs")),
    Case("value without a JSON form", "NaN", given(math.nan), U, ("data.value", "float nan")),
    Case("value without a JSON form", "infinity", given(-math.inf), U, ("float -inf", "None")),
    Case("value without a JSON form", "surrogate", given("\ud800"), U, ("surrogate at index 0",)),
    Case("value without a JSON form", "surrogate in a key", given({"\udfff": 1}), U, ("{key}",)),
    Case("value without a JSON form", "NUL", given("a\0b"), U, ("NUL at index 1", "bytes")),
    Case("value without a JSON form", "object", given(object()), U, ("data.value", "dataclass")),
    Case("value without a JSON form", "signal", lambda c: c.get("open").signal("go", math.nan), U,
         ("signal go", "float nan")),
    Case("value without a JSON form", "signal of another type",
         lambda c: c.get("open").signal(go, "five"), U, ("signal go", "integer")),
    Case("Secret in a value", "input", given([hf.Secret("plain-text")]), S,
         ("arguments of loose", "data.value[0]", "a Secret is never stored", "@app.step(secrets=")),
    Case("Secret in a value", "signal",
         lambda c: c.get("open").signal("go", hf.Secret("plain-text")), S,
         ("signal go", "never stored")),
    Case("Secret in a value", "its text", lambda c: given(hf.Secret("plain-text").reveal())(c), S,
         ("data.value", "the text of a secret")),
    *[Case("id or name that cannot be stored", f"id {ascii(id)[:12]}", named(id), N,
           ("run id", word, "1 to 255"))
      for id, word in [("", "0 characters"), ("x" * 256, "256 characters"),
                       ("\U0001f4be" * 129, "516 bytes"), ("a\nb", "printed"),
                       ("a\x1b[31m", "printed"), ("../etc", "slash"), ("a/b", "slash"),
                       (".hidden", "dot"), ("a\ud800", "printed"), (5, "no text"),
                       (b"x", "no text")]],
    Case("id or name that cannot be stored", "get", lambda c: c.get(""), N, ("run id",)),
    Case("id or name that cannot be stored", "signal id",
         lambda c: c.get("open").signal("go", 1, id="a/b"), N, ("signal id",)),
    Case("id or name that cannot be stored", "signal name",
         lambda c: c.get("open").signal("", 1), N, ("signal name", "empty")),
    Case("same id, other work", "input", lambda c: c.start(order.bind("chair"), id="open-order"),
         hf.RunConflict, ("another input", "idempotency key")),
    Case("same id, other work", "workflow", lambda c: c.start(flows.waits.bind(), id="open-order"),
         hf.RunConflict, ("another workflow (order)",)),
    Case("id or name that cannot be stored", "entity key",
         lambda c: c.entity(flows.Tally, "a/b"), N, ("entity key", "slash")),
    Case("arguments do not fit", "entity", lambda c: c.entity(flows.Tally, "a").update(
        flows.Tally.add, "x"), U, ("n", "str", "integer")),
    Case("arguments do not fit", "no entity", lambda c: c.entity(dict, "a"), B,
         ("<class 'dict'>", "Tally")),
    Case("arguments do not fit", "no method", lambda c: c.entity(flows.Tally, "a").update(
        flows.Tally.total), B, ("<method total>", "no update", "Tally.add")),
    Case("arguments do not fit", "no query", lambda c: c.entity(flows.Tally, "a").query(
        flows.Tally().total), B, ("no query", "Tally.total")),
    Case("signal to nobody", "unknown", lambda c: c.get("nobody").signal("go", 1), hf.RunNotFound,
         ("'nobody'", "holdfast runs list")),
    Case("signal to nobody", "closed", lambda c: c.get("closed").signal("go", 1), hf.RunClosed,
         ("terminated", "Start a new run")),
    Case("signal to nobody", "cancel", lambda c: c.get("nobody").cancel(), hf.RunNotFound, ()),
    Case("signal to nobody", "pause", lambda c: c.get("closed").pause(), hf.RunClosed, ()),
    Case("signal to nobody", "terminate", lambda c: c.get("closed").terminate(), hf.RunClosed, ()),
    Case("signal to nobody", "resume", lambda c: c.get("open").resume(), hf.IllegalMove,
         ("resume", "paused", "holdfast runs why open")),
    Case("signal to nobody", "retry", lambda c: c.get("open").retry(), hf.IllegalMove, ("failed",)),
    Case("key that is none", "unknown", lambda c: c.get("open").rerun("charge#9"), hf.UnknownKey,
         ("'charge#9'", "nothing", "holdfast runs show")),
    Case("key that is none", "no text", lambda c: c.get("open").rerun(5.0), V,
         ("rerun: from_: float", "'charge#2'")),
    Case("key that is none", "no event", lambda c: c.get("open").rerun(99), hf.UnknownKey,
         ("99", "'open'")),
    Case("key that is none", "of nobody", lambda c: c.get("nobody").rerun("a#1"), hf.RunNotFound,
         ("'nobody'",)),
    Case("key that is none", "rerun id", lambda c: c.get("open").rerun(id="a/b"), N,
         ("rerun id",)),
    Case("point that is none", "number", lambda c: c.get("open").fork(99), V,
         ("fork: at: 99 is no event of", "holdfast runs show")),
    Case("point that is none", "negative", lambda c: c.get("open").fork(-1), V, ("-1 is no",)),
    Case("point that is none", "type", lambda c: c.get("open").fork(1.5), V,
         ("fork: at: float", "'charge#2'")),
    Case("point that is none", "bool", lambda c: c.get("open").fork(True), V, ("fork: at: bool",)),
    Case("point that is none", "key", lambda c: c.get("open").fork("charge#9"), hf.UnknownKey,
         ("'charge#9'",)),
    Case("point that is none", "result of nothing",
         lambda c: c.get("open").fork(results={"charge#9": 1}), hf.UnknownKey, ("'charge#9'",)),
    Case("point that is none", "result without a JSON form",
         lambda c: c.get("open").fork(results={"a#1": math.nan}), U, ("result of a#1", "nan")),
    Case("point that is none", "key of a result", lambda c: c.get("open").fork(results={5: 1}), V,
         ("fork: results: int",)),
    Case("point that is none", "not bound", lambda c: c.get("open").fork(input={"a": 1}), B,
         ("fork was given {'a': 1}", "run.fork(input=order.bind(...))")),
    Case("point that is none", "id", lambda c: c.get("open").fork(id="a/b"), N, ("run id",)),
    Case("point that is none", "id of another run", lambda c: c.get("open").fork(id="closed"),
         hf.RunConflict, ("'closed'",)),
    Case("point that is none", "of nobody", lambda c: c.get("nobody").fork(), hf.RunNotFound, ()),
    Case("point that is none", "diff with nobody", lambda c: c.diff("open", "nobody"),
         hf.RunNotFound, ("'nobody'",)),
    Case("point that is none", "generation", lambda c: c.diff("open", "open@7"), V,
         ("no generation 7", "from 1 to 1")),
    Case("reason", "of a rerun", lambda c: c.get("open").rerun(reason="x" * 2_001), V,
         ("rerun: reason: 2,001",)),
    Case("query or update", "no run", lambda c: c.get("nobody").query("a"), hf.RunNotFound, ()),
    Case("query or update", "unknown query", lambda c: c.get("open-order").query("a"),
         hf.UnknownQuery, ("'a'", "It answers: none", "hf.handle")),
    Case("query or update", "no query", lambda c: c.get("open").query(5), hf.BadDefinition,
         ("5", "hf.Query")),
    Case("query or update", "no update", lambda c: c.get("open").update(None), hf.BadDefinition,
         ("None", "hf.Update")),
    Case("query or update", "name", lambda c: c.get("open").update("a/b"), N,
         ("update name", "slash")),
    Case("query or update", "id", lambda c: c.get("open").update("a", id=""), N, ("update id",)),
    Case("query or update", "value", lambda c: c.get("open").update("a", object()),
         hf.Unserialisable, ("update a",)),
    Case("query or update", "large value", lambda c: c.get("open").update("a", "x" * 5_000_000),
         hf.PayloadTooLarge, ("update a", "limit")),
    Case("query or update", "wait", lambda c: c.get("open").update("a", wait="done"),
         hf.BadDefinition, ("'done'", "accepted")),
    Case("query or update", "closed", lambda c: c.get("closed").update("a"), hf.RunClosed, ()),
    Case("query or update", "start with what is unbound",
         lambda c: c.signal_with_start(order.bind("lamp"), "go", id="new"), hf.BadDefinition,
         ("'go'", ".bind(")),
    Case("answer to nobody", "unknown run", lambda c: c.get("nobody").answer("ask#1", True),
         hf.RunNotFound, ("'nobody'",)),
    Case("answer to nobody", "closed", lambda c: c.get("closed").answer("ask#1", True),
         hf.RunClosed, ("terminated",)),
    Case("answer to nobody", "no question", lambda c: c.get("open").answer("ask#1", True),
         hf.AnswerRefused, ("no such question", "holdfast questions")),
    Case("answer to nobody", "no text", lambda c: c.get("open").answer("ask#1", True, by="\n"), N,
         ("by",)),
    Case("answer to nobody", "no JSON", lambda c: c.get("open").answer("ask#1", {1, object()}),
         hf.Unserialisable, ()),
    *[Case("answer to nobody", f"token {token!r:.8}", lambda c, t=token: c.complete(t, 1),
           hf.InvalidToken, ("hf.completion_token",))
      for token in ("", "x", "é", 5, "WzFd", "x" * 5_000)],
    Case("answer to nobody", "error name", lambda c: c.fail("x", "no name"), N, ("class",)),
    Case("page", "questions", lambda c: c.questions(after="x"), N, ("cursor",)),
    Case("page", "questions limit", lambda c: c.questions(limit=-1), V, ("limit",)),
    Case("reason", "too long", lambda c: c.get("open").cancel("x" * 2_001), V,
         ("cancel: reason: 2,001", "2,000")),
    Case("reason", "no text", lambda c: c.get("open").pause(5), V, ("pause: reason: int",)),
    Case("reason", "surrogate", lambda c: c.get("open").terminate("\ud800"), V, ("terminate",)),
    *[Case("page", f"cursor {ascii(after)[:12]}", lambda c, after=after: c.list(after=after), N,
           ("cursor",))
      for after in ("x", "1", "1:", ":x", "²:x", "-1:x", "9" * 30 + ":x")],
    *[Case("page", f"limit {limit!r:.8}", lambda c, limit=limit: c.list(limit=limit), V,
           ("limit", "0 to 1,000"))
      for limit in (-1, 10**30, "5", True)],
    *[Case("filter", f"{ascii(text)[:16]}", lambda c, text=text: c.list(filter=text),
           hf.InvalidFilter, ("column", told))
      for text, told in (
          ("colour:red", "no key"), ("status:done", "no status"), ("a!=1", "'!='"),
          ("since:soon", "no time"), ('tag:"x', "never closed"), ("\0", "cannot be in a filter"),
          ("x" * 5_000, "4096"), (5, "a text"),
      )],
    *[Case("tag or attribute", f"{tags!r:.12} {attributes!r:.16}",
           lambda c, t=tags, a=attributes: c.start(order.bind("lamp"), tags=t, attributes=a),
           hf.InvalidTag, (told,))
      for tags, attributes, told in (
          ("vip", {}, "is no list"), ([""], {}, "1 to 256"), (["x" * 257], {}, "256"),
          ([5], {}, "not a text"), (["x"] * 33, {}, "at most 32"), ((), {"a b": 1}, "letters"),
          ((), {"status": 1}, "key of the filter"), ((), {"a": None}, "text, a number"),
          ((), {"a": float("nan")}, "finite"), ((), {"a": 2**63}, "64 bits"),
      )],
    *[Case("page", f"status {status!r}", lambda c, status=status: c.list(status=status), V,
           (told, "completed"))
      for status, told in (("done", "'done'"), (5, "5 is no status"), ([5], "5 is no status"))],
    *[Case("page", f"events after {after!r}", lambda c, after=after: first_after(c, after), V,
           ("after", "no number of an event", "`seq`"))
      for after in ("x", -1, 1.5, None, True)],
    *[Case("cron text", name, scheduled(spec), hf.InvalidSchedule, told) for name, spec, told in [
        ("no cron", {"cron": "every day"}, ("cron='every day'", "2 fields", "five")),
        ("bad minute", {"cron": "61 * * * *"}, ("bad minute", "hf.Schedule(cron=")),
        ("31 of February", {"cron": "0 0 31 2 *"}, ("bad day-of-month",)),
        ("more than once a second", {"every": 0.5}, ("every=0.5", "shorter than a second")),
        ("unknown zone", {"cron": "0 3 * * *", "zone": "Mars/Olympus"}, ("'Mars/Olympus'",)),
        ("unknown rule", {"every": 60, "overlap": "both"}, ("'both'", "BUFFER_ALL")),
    ]],
    Case("cron text", "no schedule", lambda c: c.schedules.create("s", order.bind("a"), "0 3 * *"),
         B, ("'0 3 * *'", "hf.Schedule(")),
    Case("cron text", "id", lambda c: c.schedules.create("a@b", order.bind("a"), HOURLY), N,
         ("schedule id", "'a@b'", "has an @")),
    Case("cron text", "nobody", lambda c: c.schedules.pause("nobody"), hf.ScheduleNotFound,
         ("'nobody'", "holdfast schedules list")),
]  # fmt: skip


def defines(make: Callable[[hf.App], Any]) -> Callable[[], Any]:
    return lambda: make(hf.App("shop"))


def twice(shop: hf.App) -> None:
    async def pay() -> None: ...

    shop.step(pay)
    shop.step(pay)


class Shop:
    async def pay(self) -> None: ...


def numbers() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


def plain() -> None: ...


async def opened(file: asyncio.Event) -> None: ...


# As a caller passes them who does not check types.
PLAIN: Any = plain
STREAM: Any = stream
RETRY: Any = hf.Retry
CACHE: Any = hf.Cache
SIXTY: Any = 60
FLOW: Any = hf.App("children").workflow(opened)

PLAIN_ANY: Any = plain
DEFINITIONS = [
    Case("definition", "lambda", defines(lambda a: a.step(lambda: 1)), B, ("lambda", "named def")),
    Case("definition", "method", defines(lambda a: a.step(Shop.pay)), B, ("method", "crash")),
    Case("definition", "bound method", defines(lambda a: a.step(Shop().pay)), B, ("`def`",)),
    Case("definition", "generator", defines(lambda a: a.step(numbers)), B, ("generator", "list")),
    Case("definition", "async generator", defines(lambda a: a.workflow(STREAM)), B, ("generator",)),
    Case("definition", "sync workflow", defines(lambda a: a.workflow(PLAIN)), B, ("async def",)),
    Case("definition", "no JSON form", lambda: hf.App("x").workflow(opened).bind(asyncio.Event()),
         B, ("'file'", "Event", "dataclass")),
    Case("definition", "step's name", defines(lambda a: a.step(name="a/b")(plain)), B, ("'/'",)),
    Case("definition", "app's name", lambda: hf.App(""), B, ("App name", "255")),
    Case("definition", "namespace", lambda: hf.App("a", namespace="\n"), B, ("Namespace",)),
    Case("definition", "signal's name", lambda: hf.Signal("a/b", int), N, ("signal name",)),
    Case("definition", "policy of a child", lambda: FLOW.options(on_parent_close="kill"), B,
         ("on_parent_close='kill'", "abandon")),
    Case("definition", "id of a child", lambda: FLOW.options(id="a/b"), N, ("child id", "slash")),
    *[Case("definition", f"entity {name}", defines(act), B, words) for name, act, words in [
        ("no dataclass", lambda a: a.entity(Shop), ("Shop", "no dataclass", "@dataclass")),
        ("without methods", lambda a: a.entity(flows.Bare), ("'Bare'", "@hf.update")),
        ("without a default", lambda a: a.entity(flows.Lacking), ("'n'", "default", "`key`")),
        ("named badly", lambda a: a.entity(name="a/b")(flows.Tally), ("Entity name", "'/'")),
        ("twice", lambda a: (a.entity(flows.Tally), a.entity(flows.Tally)), ("already", "'Tally'")),
        ("sync update", lambda _: hf.update(PLAIN_ANY), ("plain", "async def", "@hf.query")),
        ("async query", lambda _: hf.query(STREAM), ("`def`",)),
        ("two validators", lambda _: [flows.Tally.add.validator(PLAIN_ANY) for _ in range(2)],
         ("'add'", "validator already")),
    ]],
    *[Case("cache", name, act, error, words) for name, act, error, words in [
        ("no time", lambda: CACHE(0), B, ("Cache.expires is 0", "above 0", "None")),
        ("negative", lambda: CACHE(-1), D, ("Cache.expires=-1", "100 years")),
        ("text for a time", lambda: CACHE("1h"), D, ("Cache.expires='1h'", "timedelta")),
        ("text for a key", lambda: CACHE(1, key="id"), B, ("Cache.key is 'id'", "function")),
        ("async key", lambda: CACHE(1, key=opened), B, ("Cache.key", "plain function")),
        ("number for a version", lambda: CACHE(1, version=2), B, ("no text, it is int", "255")),
        ("long version", lambda: CACHE(1, version="2" * 256), B, ("256 characters", "255")),
        ("seconds for a cache", defines(lambda a: a.step(cache=SIXTY)(plain)), B,
         ("cache=60", "hf.Cache(")),
        ("with secrets", defines(lambda a: a.step(cache=CACHE(1), secrets=["s"])(plain)), B,
         ("'plain'", "secrets", "Leave out cache=")),
        ("at most once", defines(lambda a: a.step(cache=CACHE(1), at_most_once=True)(plain)), B,
         ("at most once", "step of its own")),
        ("completed later", defines(lambda a: a.step(cache=CACHE(1), completes_later=True)(plain)),
         B, ("completes later", "token")),
        ("of a transaction",
         defines(lambda a: a.transaction(flows.write).options(cache=CACHE(1))), B,
         ("'write'", "transaction", "writes nothing")),
    ]],
    Case("duplicate step", "name", defines(twice), B, ("already has a step 'pay'", 'name="..."')),
    Case("delay that is none", "negative", defines(lambda a: a.step(timeout=-1)), D,
         ("timeout=-1", "100 years")),
    Case("delay that is none", "NaN", defines(lambda a: a.step(timeout=math.nan)), D, ("nan",)),
    Case("delay that is none", "two hundred years",
         defines(lambda a: a.step(total_timeout=timedelta(days=73_000))), D, ("total_timeout",)),
    Case("delay that is none", "naive datetime", defines(lambda a: a.step(timeout=NAIVE)), D,
         ("datetime.datetime(2027", "timedelta")),
    Case("delay that is none", "retry after", lambda: hf.RetryAfter(math.nan), D, ("RetryAfter",)),
    Case("retry policy", "no attempts", lambda: RETRY(max_attempts=0), B, ("at least 1",)),
    Case("retry policy", "half an attempt", lambda: RETRY(max_attempts=2.5), B, ("2.5",)),
    Case("retry policy", "text", lambda: RETRY(max_attempts="5"), B, ("max_attempts", "'5'")),
    Case("retry policy", "negative wait", lambda: RETRY(initial=-1), D, ("Retry.initial=-1",)),
    Case("retry policy", "first wait above the cap", lambda: RETRY(initial=3_600), B,
         ("Retry.initial is 3600, above Retry.cap, 100.0", "raise it too")),
    Case("retry policy", "endless cap", lambda: RETRY(cap=math.inf), D, ("Retry.cap=inf",)),
    Case("retry policy", "factor", lambda: RETRY(factor=math.nan), B, ("factor is nan",)),
    Case("retry policy", "no classes", lambda: RETRY(retry_on=(5,)), B, ("retry_on", "tuple")),
    *[Case("settings", f"{name} {value!r}",
           lambda name=name, value=value: hf.Settings(**{name: value}), B,
           (f"Settings.{name}", repr(value), "number"))
      for name in ("lease", "poll", "steps", "machines", "keep", "drain", "history")
      for value in (-1, math.nan, math.inf, "5", True)],
]  # fmt: skip


def test_every_row_is_tested_or_says_why_not() -> None:
    tested = {case.row for case in (*TO_CLIENT, *DEFINITIONS)} | {row for row, *_ in TYPED}
    tested |= {"store URL", "result of an unknown type"}
    assert tested == {row for row, reason in ROWS.items() if not reason}


def check(case: Case, error: hf.HoldfastError) -> None:
    """The error is of its type, has a code, and says where, what, and what to do next."""
    text = str(error)
    assert isinstance(error, case.error)
    assert CODE.search(text), text
    assert [word for word in case.words if word not in text] == [], text
    assert len(text) < 600, "the value itself has no place in a message"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("HOLDFAST_BLOBS", "")  # the limit of a value is that of a row everywhere
    url = request.getfixturevalue("postgres_store") if request.param == "postgres" else ""
    return Place(request.param, tmp_path, url)


async def rows_of(client: hf.Client) -> Any:
    """Everything the store holds, but for the time."""
    store: Any = client.engine.store
    return (await invariants.dump(store))._replace(now=0, definitions=())


async def fill(client: hf.Client) -> None:
    await client.start(flows.waits.bind(), id="open")
    await client.start(order.bind("lamp"), id="open-order")
    await (await client.start(order.bind("lamp"), id="closed")).terminate()


@pytest.mark.parametrize("case", TO_CLIENT, ids=str)
async def test_a_client_refuses_it_and_stores_nothing(place: Place, case: Case) -> None:
    async with place.open(app, worker=False) as client:
        await fill(client)
        before = await rows_of(client)
        with pytest.raises(hf.HoldfastError) as caught:
            await within(_awaited(case.act, client))
        check(case, caught.value)
        assert await rows_of(client) == before


async def _awaited(act: Callable[[hf.Client], Any], client: hf.Client) -> None:
    outcome = act(client)
    if isinstance(outcome, Awaitable):
        await outcome


@pytest.mark.parametrize("case", DEFINITIONS, ids=str)
def test_it_cannot_be_defined(case: Case) -> None:
    with pytest.raises(hf.HoldfastError) as caught:
        case.act()
    check(case, caught.value)


IN_BODY = {
    "object in a result": ("UnserialisableResult", "result.file: object", "dataclass"),
    "unknown argument": ("InvalidArguments", "too many positional", "odd()"),
    "continued without input": ("BadDefinition", "<workflow asks>", "poll.bind(...)"),
    "continued as another": ("BadDefinition", "<workflow order>", "stays with its workflow"),
    "continued with bad input": ("Unserialisable", "what", "valid string"),
    "continued at once": ("BadDefinition", "before the body waited", "a step, a timer"),
    "continued after nothing": ("InvalidValue", "events", "0"),
}


@pytest.mark.parametrize("what", [*flows.ASKS, *flows.CONTINUES])
async def test_a_body_that_asks_for_it_fails_and_records_nothing_else(
    place: Place, what: str
) -> None:
    kind, *words = IN_BODY.get(what, ("InvalidDuration", "no usable duration", "100 years"))
    async with place.open(app) as client:
        run = await client.start(asks.bind(what))
        with pytest.raises(hf.RunFailed) as caught:
            await within(run.result())
        told = f"{caught.value.type}: {caught.value.message}"
        assert [word for word in (kind, *words) if word not in told] == [], told
        kinds = [event.kind for event in (await run.history()).events]
        assert set(kinds) <= {"run.started", "step.failed", "run.failed"}


def test_an_overflowing_back_off_saturates() -> None:
    retry = hf.Retry(factor=1e300, cap=50, jitter=False, max_attempts=10**9)
    assert [retry.wait(ValueError(), attempt, 0) for attempt in (1, 2, 10**6)] == [
        1_000_000, 50_000_000, 50_000_000,
    ]  # fmt: skip


async def test_a_legal_id_is_stored_as_it_is(place: Place) -> None:
    ids = ["'; DROP TABLE runs; --", "<script>alert(1)</script>".replace("/", ""), "ünïcode ✓ 日本"]
    async with place.open(app, worker=False) as client:
        for id in ids:
            assert (await client.start(order.bind("lamp"), id=id)).id == id
        assert {run.id for run in (await client.list()).runs} == set(ids)


async def test_a_large_value_is_named_once_in_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with place.open(app, worker=False) as client:
        large = f"large-{place.kind}"
        run = await client.start(flows.waits.bind(), id="open")
        await run.signal(large, ["x" * 300_000])
        await run.signal(large, ["x" * 300_000])
    told = [record.getMessage() for record in caplog.records if large in record.getMessage()]
    assert len(told) == 1
    assert "300,0" in told[0]
    assert "2,097,152" in told[0]


# --- stores that cannot be opened


def _not_a_database(folder: Path) -> str:
    (folder / "notes.db").write_text("these are my notes, and no database at all\n" * 100)
    return f"sqlite:///{folder}/notes.db"


def _made(folder: Path, *statements: str) -> str:
    import sqlite3

    with sqlite3.connect(folder / "made.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return f"sqlite:///{folder}/made.db"


def _newer(folder: Path) -> str:
    from holdfast.stores.sqlite.connection import APPLICATION_ID

    mark = f"PRAGMA application_id = {APPLICATION_ID}"
    return _made(folder, "PRAGMA journal_mode = WAL", mark, "PRAGMA user_version = 9999")


def _of_another_program(folder: Path) -> str:
    return _made(folder, "CREATE TABLE customers (name)", "PRAGMA user_version = 5")


def _without_a_lock(folder: Path) -> str:
    """What a folder that one may not write to comes to, for root too."""
    (folder / "made.db").touch()
    (folder / "made.db-lock").mkdir()
    return f"sqlite:///{folder}/made.db"


def _with_our_names(folder: Path) -> str:
    return _made(folder, "CREATE TABLE schedules (name)")


URLS: dict[str, tuple[Callable[[Path], Any], type[hf.StoreError], str]] = {
    "empty": (lambda _: "", StoreSettings, "sqlite:///shop.db"),
    "no scheme": (lambda _: "shop.db", StoreSettings, "Unknown store in 'shop.db'"),
    "no URL": (lambda _: "sqlite://[", StoreSettings, "is no URL"),
    "no text": (lambda _: None, StoreSettings, "Use sqlite:///shop.db"),
    "no file": (lambda _: "sqlite://", StoreSettings, "No file in"),
    "a host": (lambda _: "sqlite://host/shop.db", StoreSettings, "No file in"),
    "NUL": (lambda _: "sqlite:////tmp/a\0b", StoreSettings, "No file in"),
    "password": (lambda _: "mysql://me:s3cret@host/db", StoreSettings, "'mysql://me:***@host/db'"),
    "no folder": (lambda f: f"sqlite:///{f}/no/shop.db", StoreSettings, "does not exist"),
    "a folder": (lambda f: f"sqlite:///{f}", StoreSettings, "is a folder"),
    "unwritable": (lambda _: "sqlite:////proc/shop.db", StoreSettings, "may write to"),
    "no database": (_not_a_database, StoreSettings, "not a usable SQLite database"),
    "newer schema": (_newer, StoreVersion, "9999"),
    "another program": (_of_another_program, StoreSettings, "of another program"),
    "no lock": (_without_a_lock, StoreSettings, "made.db-lock'"),
    "names taken": (_with_our_names, StoreSettings, "of another program"),
    "no server": (lambda _: "postgresql://me:s3cret@127.0.0.1:1/db", StoreUnavailable, "1:1/db"),
    "no port": (lambda _: "postgresql://me:s3cret@host:x/db", StoreSettings, "cannot be used"),
    "no PostgreSQL": (lambda _: "postgres://[", StoreSettings, "is no URL"),
    "bracket": (lambda _: "postgres://me:s3cret]@host/db", StoreSettings, "://me:***@host/db'"),
    "slash": (lambda _: "postgres://me:s3cret/x@host/db", StoreSettings, "write %2F"),
    "no such": (lambda _: "mysql://host/db?password=s3cret", StoreSettings, "password=***'"),
}


@pytest.mark.parametrize("name", URLS)
async def test_a_store_that_cannot_be_opened_is_said_at_once(name: str, tmp_path: Path) -> None:
    make, kind, words = URLS[name]
    url = make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.db")}
    with pytest.raises(hf.StoreError) as caught:
        await within(_opened(url), 5)
    assert isinstance(caught.value, kind)
    assert words in str(caught.value)
    assert CODE.search(str(caught.value))
    assert "s3cret" not in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.db")} == before


async def _opened(url: str) -> None:
    async with app.open(url):
        pass


@pytest.mark.parametrize("name", [n for n in URLS if n not in ("no text", "NUL", "empty")])
def test_the_command_line_says_it_too(name: str, tmp_path: Path) -> None:
    make, _, _ = URLS[name]
    url = make(tmp_path)
    words = ["run", "order", "-i", "item=lamp", "--store", url, "--app", flows.__file__]
    result = CliRunner().invoke(root, words, prog_name="holdfast")
    assert result.exit_code == 5
    assert re.search(r"\[HF\d{3}\]\nmore: holdfast explain HF\d{3}\n$", result.stderr)
    assert "Traceback" not in result.output
    assert "s3cret" not in result.output


# --- the command line

RUN = ("run", "order")
TYPED: list[tuple[str, tuple[str, ...], int, tuple[str, ...]]] = [
    ("unknown workflow", ("run", "ordr"), 3, ("HF103", "Did you mean 'order'?")),
    ("unknown workflow", ("run", "x" * 5_000), 3, ("HF103", "Registered: Tally, asks")),
    ("arguments do not fit", RUN, 2, ("HF117", "misses item", "cents")),
    ("arguments do not fit", (*RUN, "-i", "nick=x"), 2, ("HF117", "item, cents")),
    ("arguments do not fit", (*RUN, "-i", "item=x", "-i", "cents=many"), 2, ("HF110", "cents")),
    ("arguments do not fit", (*RUN, "-i", "[1"), 2, ("HF110", "is no JSON")),
    ("arguments do not fit", (*RUN, "-i", "item=x", "-i", "3"), 2, ("HF110", "no name=value")),
    ("duplicate JSON keys", (*RUN, "-i", '{"item": "a", "item": "b"}'), 2, ("HF110", "'item'")),
    ("duplicate JSON keys", ("run", "loose", "-i", 'data={"a": {"b": 1, "b": 1}}'), 2, ("'b'",)),
    ("duplicate JSON keys", (*RUN, "-i", "item=a", "-i", "item=b"), 2, ("HF110", "'item'")),
    ("value too large", (*RUN, "-i", "@{large}"), 2, ("HF113", "4,194,304")),
    ("value too complex", ("run", "loose", "-i", "@{deep}"), 2, ("HF110", "64")),
    ("value too complex", (*RUN, "-i", "item=x", "-i", f"cents={'9' * 5_000}"), 2, ("4,300",)),
    ("value without a JSON form", ("run", "loose", "-i", '{"data": {"a": NaN}}'), 2, ("NaN",)),
    (
        "value without a JSON form",
        ("run", "loose", "-i", '{"data": {"a": "\\ud800"}}'),
        2,
        ("HF1",),
    ),
    (
        "value without a JSON form",
        ("run", "loose", "-i", '{"data": {"a": "\\u0000"}}'),
        2,
        ("NUL",),
    ),
    ("bad bytes or files", (*RUN, "-i", "@{latin}"), 2, ("HF110", "UTF-8", "byte 10")),
    ("bad bytes or files", (*RUN, "-i", "@nowhere.json"), 2, ("HF110", "Cannot read")),
    ("bad bytes or files", (*RUN, "-i", "item=\udcff"), 2, ("HF1", "surrogate")),
    ("id or name that cannot be stored", (*RUN, "-i", "item=x", "--key", ""), 2, ("HF114",)),
    ("id or name that cannot be stored", (*RUN, "-i", "item=x", "--key", "../x"), 2, ("HF114",)),
    ("id or name that cannot be stored", (*RUN, "-i", "item=x", "--key", "x" * 256), 2, ("256",)),
    ("id or name that cannot be stored", ("runs", "signal", "open", "a/b"), 2, ("HF114", "slash")),
    ("id or name that cannot be stored", ("runs", "list", "--namespace", "\n"), 2, ("HF114",)),
    ("same id, other work", (*RUN, "-i", "item=x", "--key", "open-order"), 2, ("HF203",)),
    ("signal to nobody", ("runs", "signal", "nobody", "go"), 3, ("HF201", "runs list")),
    ("answer to nobody", ("approve", "nobody"), 3, ("HF201", "runs list")),
    ("answer to nobody", ("approve", "open-order", "ask#7"), 2, ("HF206", "no such question")),
    ("answer to nobody", ("steps", "complete", "nonsense", "1"), 2, ("HF126",)),
    ("page", ("questions", "--after", "x"), 2, ("HF122",)),
    ("signal to nobody", ("runs", "signal", "", "go"), 3, ("HF201",)),
    ("signal to nobody", ("runs", "signal", "\udcff", "go"), 3, ("HF201",)),
    ("signal to nobody", ("runs", "signal", "closed", "go"), 2, ("HF202", "terminated")),
    ("signal to nobody", ("runs", "resume", "open-order"), 2, ("HF204", "runs why open-order")),
    ("arguments do not fit", ("runs", "signal", "open-order", "go", "-d", "{"), 2, ("is no JSON",)),
    ("query or update", ("runs", "update", "open-order", "go", "{"), 2, ("is no JSON",)),
    ("query or update", ("runs", "update", "nobody", "go"), 3, ("HF201",)),
    ("query or update", ("runs", "update", "closed", "go"), 2, ("HF202",)),
    ("query or update", ("runs", "query", "open-order", "go"), 2, ("HF211", "It answers: none")),
    ("value without a JSON form", ("runs", "signal", "open-order", "go", "-d", "NaN"), 2, ("NaN",)),
    ("delay that is none", (*RUN, "-i", "item=x", "--timeout", "soon"), 2, ("HF115", "30d, 12h")),
    ("delay that is none", (*RUN, "-i", "item=x", "--timeout", "101w5"), 2, ("HF115", "--timeout")),
    ("delay that is none", (*RUN, "-i", "item=x", "--timeout", "-3d"), 2, ("HF115",)),
    ("delay that is none", ("db", "prune", "-y", "--older-than", "9" * 400 + "d"), 2, ("HF115",)),
    (
        "delay that is none",
        ("db", "prune", "-y", "--older-than", "9" * 5_000 + "d"),
        2,
        ("100 years",),
    ),
    ("reason", ("runs", "cancel", "open-order", "--reason", "x" * 3_000), 2, ("HF110", "2,000")),
    ("page", ("runs", "list", "--before", "²:x"), 3, ("HF201", "No run")),
    ("filter", ("runs", "list", "statuz:failed"), 2, ("HF121", "column 1", "status")),
    ("tag or attribute", (*RUN, "-i", "item=x", "--tag", ""), 2, ("HF123", "1 to 256")),
    ("tag or attribute", (*RUN, "-i", "item=x", "--attribute", "a"), 2, ("HF123", "name=value")),
    ("imported file", ("runs", "import", "{large}"), 2, ("HF125", "no JSON object")),
    ("imported file", ("runs", "import", "{deep}"), 2, ("HF125", "no JSON")),
    ("imported file", ("runs", "import", "{latin}"), 2, ("HF125", "no JSON")),
    ("filter", ("runs", "list", "amount!=1"), 2, ("HF121", "'!=' is no operator")),
    ("filter", ("runs", "list", "--since", "'; DROP TABLE runs"), 2, ("HF121", "is no time")),
    ("page", ("runs", "list", "--workflow", "\udcff"), 2, ("HF114",)),
]


def bad_files(folder: Path) -> dict[str, Path]:
    files = {name: folder / f"{name}.json" for name in ("large", "deep", "latin")}
    files["large"].write_text(f'"{"x" * 5_000_000}"')
    files["deep"].write_text("[" * 100_000 + "]" * 100_000)
    files["latin"].write_bytes(b'{"item": "\xe4"}')
    return files


@pytest.mark.parametrize(
    ("row", "words", "code", "told"),
    TYPED,
    ids=[
        f"{row}-{' '.join(words)}"[:70].encode("ascii", "replace").decode()
        for row, words, *_ in TYPED
    ],
)
def test_the_command_line_refuses_it_and_stores_nothing(
    row: str, words: tuple[str, ...], code: int, told: tuple[str, ...], tmp_path: Path
) -> None:
    place = Place("sqlite", tmp_path)
    before = asyncio.run(_stored(place, fills=True))
    names = [re.fullmatch(r"@?\{\w+\}", word) for word in words]
    files = bad_files(tmp_path) if any(names) else {}
    typed = [w.format(**files) if name else w for w, name in zip(words, names, strict=True)]
    env = {"HOLDFAST_STORE": f"sqlite:///{place.path}", "HOLDFAST_APP": flows.__file__}
    result = CliRunner().invoke(root, typed, env=env, prog_name="holdfast")
    assert result.exit_code == code, result.output
    assert (result.stdout, "Traceback" in result.stderr) == ("", False)
    assert [word for word in told if word not in result.stderr] == [], result.stderr
    assert re.search(r"\[HF\d{3}\]\nmore: holdfast explain HF\d{3}\n$", result.stderr)
    assert len(result.stderr) < 800, "the value itself has no place in a message"
    assert asyncio.run(_stored(place)) == before


async def _stored(place: Place, *, fills: bool = False) -> Any:
    async with place.open(app, worker=False) as client:
        if fills:
            await fill(client)
        return await rows_of(client)
