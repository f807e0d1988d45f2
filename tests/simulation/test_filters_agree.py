"""Any filter finds the same runs on every store, and no text in one is ever more than a text."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import QuarantineRun, StartRun
from holdfast.model.filters import STATUSES, Operator, Term, parse, quoted
from holdfast.model.labels import KEYS, Labels, checked_labels
from holdfast.model.writes import Filter, Page
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import SECOND, ManualClock
from holdfast.testing.inline import Elsewhere, InlineStore

INJECTIONS = (
    "' OR '1'='1", "'; DROP TABLE runs; --", '" OR ""="', "1; SELECT * FROM workers",
    "x') UNION SELECT * FROM inbox --", "%' --", "\\'; --", "0x27", "/**/OR/**/1=1", ":value",
    ":ns", "?1", "$name", "{0}", "%s", "`id`", "id)--", "NULL", "1e309", "char(39)", "[runs]",
    "json_each(:ids)", "'||(SELECT name FROM sqlite_master)||'", "t0_v0", ":t0_v0", "-1", "--",
)  # fmt: skip

WORDS = ("vip", "new", "a b", "it's", 'say "x"', "é", "É", "ORDER", "order", "%", "_", "", "42")
NUMBERS = (0, 1, -1, 42, 42.0, 0.1, -0.5, 2**53, 2**53 + 1, 2**63 - 1, 1e300, -1e-300)
NAMES = ("customer", "amount", "is_paid", "a.b", "x-y")

words = st.sampled_from([*WORDS, *INJECTIONS])
tags = st.lists(words.filter(bool), max_size=3)
attributes = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(words, st.sampled_from(NUMBERS), st.booleans(), st.floats(allow_nan=False,
              allow_infinity=False), st.integers(-(2**63) + 1, 2**63 - 1)),
    max_size=3,
)  # fmt: skip
labels = st.builds(checked_labels, tags, attributes)
operators: tuple[Operator, ...] = ("=", ">", ">=", "<", "<=")


def _term(key: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Term]:
    listed = st.lists(values, min_size=1, max_size=3).map(tuple)
    return st.builds(Term, st.just(key), st.just(":"), listed, st.booleans())


operands = st.one_of(words, st.sampled_from(NUMBERS), st.floats(allow_nan=False, width=32))
terms = st.one_of(
    _term("status", st.sampled_from(STATUSES)),
    _term("workflow", words),
    _term("queue", words),
    _term("id", words),
    _term("reason", words.map(str.lower)),
    _term("tag", words),
    _term("text", words.map(str.lower)),
    _term("since", st.integers(0, 10 * SECOND)),
    _term("before", st.integers(0, 10 * SECOND)),
    st.builds(
        Term, st.just("attribute"), st.sampled_from(operators),
        st.lists(operands, min_size=1, max_size=3).map(tuple), st.booleans(),
        st.sampled_from(NAMES),
    ),
)  # fmt: skip


class Trio:
    """Three stores that are given the same."""

    def __init__(self, folder: Path, url: str, elsewhere: Elsewhere) -> None:
        self.clock = ManualClock()
        sqlite = SqliteStore(folder / "runs.db", clock=self.clock, threaded=False)
        postgres = PostgresStore(url, clock=self.clock, rings=False)
        self.stores = (MemoryStore(self.clock), sqlite, InlineStore(postgres, elsewhere))
        self.count = 0

    async def open(self) -> None:
        for store in self.stores:
            await store.open()

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def start(self, labels: Labels, workflow: str, ns: str) -> None:
        self.count += 1
        self.clock.advance(self.count % 3)
        now = self.clock()
        command = StartRun(
            ns, f"{workflow[:9]}{self.count}", workflow, "1", b"1", b"1", now, labels=labels,
            queue=workflow[:2],
        )  # fmt: skip
        writes = [decide(command)]
        if self.count % 4 == 0:
            writes.append(decide(QuarantineRun(ns, command.id, now, f"It's {workflow}")))
        for store in self.stores:
            await store.write(writes)

    async def find(self, filter: Filter, page: Page) -> list[hf.Run]:
        oracle, *others = [await store.find(filter, page) for store in self.stores]
        assert others == [oracle, oracle], filter
        return oracle


@pytest.fixture
def trio(tmp_path: Path, postgres_store: str) -> Iterator[Trio]:
    with Elsewhere() as elsewhere:
        stores = Trio(tmp_path, postgres_store, elsewhere)
        asyncio.run(stores.open())
        yield stores
        asyncio.run(stores.close())


quiet = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quiet
@given(
    runs=st.lists(st.tuples(labels, words.filter(bool)), max_size=4),
    wanted=st.lists(terms, max_size=4).map(tuple),
    limit=st.sampled_from([1, 100]),
)
def test_any_filter_finds_the_same_on_every_store(
    trio: Trio, runs: list[tuple[Labels, str]], wanted: tuple[Term, ...], limit: int
) -> None:
    async def check() -> None:
        for number, (given_labels, workflow) in enumerate(runs):
            await trio.start(given_labels, workflow, "other" if number % 4 == 3 else "default")
        await trio.find(Filter(terms=wanted), Page(limit))
        # Each alone too: a filter of several mostly finds nothing.
        for term in wanted:
            await trio.find(Filter(terms=(term,)), Page(100))

    asyncio.run(check())


@quiet
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_its_place(trio: Trio, text: str) -> None:
    place = 1
    try:
        asyncio.run(trio.find(Filter(terms=parse(text, 0)), Page(10)))
    except hf.InvalidFilter as error:
        place = error.column
    assert 1 <= place <= len(text) + 1


SHAPES = (
    "{0}", '"{1}"', "tag:{0}", 'tag:"{1}"', "id:{0}", 'reason:"{1}"', "workflow:{0}", "queue:{0}",
    "customer={0}", 'customer="{1}"', "customer>{0}", "-{0}", '-customer<"{1}"', "{0}:x", "{0}=x",
    "status:{0}", "since:{0}",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_text_in_a_filter_is_ever_more_than_a_text(trio: Trio, shape: str) -> None:
    await trio.start(Labels(("plain",), {"customer": "plain"}), "plain", "default")
    await trio.start(Labels(("secret",), {"customer": "secret"}), "secret", "other")
    before = [await store.dump() for store in trio.stores]
    for text in INJECTIONS:
        typed = shape.format(text, text.replace("\\", "\\\\").replace('"', '\\"'))
        with contextlib.suppress(hf.InvalidFilter):
            runs = await trio.find(Filter(terms=parse(typed, 0)), Page(100))
            assert {run.workflow for run in runs} <= {"plain"}, typed
    assert [await store.dump() for store in trio.stores] == before


async def test_an_injection_is_found_by_itself(trio: Trio) -> None:
    """Stored and found as it is, by tag, attribute and word."""
    for text in INJECTIONS:
        await trio.start(checked_labels([text], {"customer": text}), "w", "default")
    for text in INJECTIONS:
        for typed in (f"tag:{quoted(text)}", f"customer={quoted(text)}"):
            assert len(await trio.find(Filter(terms=parse(typed, 0)), Page(100))) == 1, typed


def test_every_key_is_in_the_property() -> None:
    told = {"status", "workflow", "queue", "id", "reason", "tag", "since", "before"}
    assert told == set(KEYS)
