"""The database's clock decides; what a process knows of it is never ahead and never goes back."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.events import Event
from holdfast.model.writes import Advance, Claim, Create, Renew
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.clock import DatabaseClock

HOUR = 3_600_000_000


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5))),
    st.integers(10**15, 2 * 10**15),
)
def test_an_estimate_is_never_ahead_and_never_goes_back(
    asked: list[tuple[int, int, int]], begin: int
) -> None:
    ticks = 0
    clock = DatabaseClock(lambda: ticks * 1_000)
    latest = 0
    for pause, going, coming in [(0, 1, 1), *asked]:
        ticks += pause
        sent = clock.ticked()
        ticks += going
        told = begin + ticks
        ticks += coming
        clock.learn(told, sent)
        assert latest <= clock() <= begin + ticks
        latest = clock()


def test_an_estimate_follows_a_clock_that_was_set_back() -> None:
    ticks = 0
    clock = DatabaseClock(lambda: ticks * 1_000)
    clock.learn(10 * HOUR, clock.ticked())
    before = clock()
    clock.learn(9 * HOUR, clock.ticked())
    assert clock() == before, "it never goes back"
    ticks += 2 * HOUR
    assert clock() == 11 * HOUR, "and is no hour ahead when the database has caught up"


async def test_a_process_whose_own_clock_is_wrong_uses_the_databases(
    postgres_store: str, monkeypatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    store = PostgresStore(postgres_store, rings=False)
    await store.open()
    started = Event("run.started", store.now(), seq=1, epoch=1)
    await store.write([Renew("A", HOUR), Create("default", "r", "w", "", b"", started, 0, "A")])
    fired = Event("timer.fired", store.now(), "sleep#1", seq=2, epoch=1)
    later = store.now() + HOUR
    early = Advance("default", "r", "A", 1, 1, (fired,), 5, not_before=later)
    due = early._replace(not_before=store.now())
    assert [o.applied for o in await store.write([early])] == [False]
    assert [o.applied for o in await store.write([due])] == [True]
    await store.close()


async def test_a_look_that_finds_nothing_is_one_statement_and_no_write(
    postgres_store: str,
) -> None:

    store = PostgresStore(postgres_store, rings=False)
    await store.open()
    claim = Claim("default", "A", ("w",), 10, HOUR)
    await store.claim(claim)
    before, written = store.statements, store.transactions
    for _ in range(5):
        await store.claim(claim)
    assert (store.statements - before, store.transactions - written) == (5, 0)
    await store.close()
