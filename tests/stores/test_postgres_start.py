"""What a database must be before runs are kept in it."""

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from holdfast.errors import StoreSettings, StoreUnavailable, StoreVersion
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.checks import AT_HOME
from holdfast.stores.postgres.target import LIMIT, LIMITS_FROM, Target
from holdfast.stores.postgres.types import ARRAYS
from holdfast.testing.conformance import Harness
from holdfast.testing.postgres import VARIABLE, PostgresServer
from tests.stores.proxy import proxied


async def opened(url: str) -> PostgresStore:
    store = PostgresStore(url, rings=False)
    await store.open()
    return store


@pytest.fixture
def weak(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start(durable=False) as server:
        yield server


async def test_a_server_that_would_lose_commits_is_refused(weak):
    with pytest.raises(StoreSettings, match="fsync=off"):
        await opened(weak.url)


async def test_a_role_that_does_not_wait_for_the_disk_is_refused(postgres, postgres_url):
    name = urlsplit(postgres_url).path[1:]
    postgres.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    with pytest.raises(StoreSettings, match="synchronous_commit=off"):
        await opened(postgres_url)


async def test_how_a_database_writes_bytes_does_not_matter(postgres, postgres_url):
    """It was another way before PostgreSQL 9.0, and some databases still have that as a setting."""
    name = urlsplit(postgres_url).path[1:]
    postgres.execute(f'ALTER DATABASE "{name}" SET bytea_output = escape')
    async with Harness(lambda _: PostgresStore(postgres_url, rings=False)) as harness:
        digest = bytes(range(256))
        assert (await harness.held("r", input_digest=digest)).input_digest == digest
        assert (await harness.load("r")).run.input_digest == digest


async def test_another_encoding_is_refused(postgres):
    postgres.execute(
        "CREATE DATABASE holdfast_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    )
    try:
        with pytest.raises(StoreSettings, match="LATIN1"):
            await opened(urlsplit(postgres.url)._replace(path="/holdfast_latin").geturl())
    finally:
        postgres.execute("DROP DATABASE holdfast_latin WITH (FORCE)")


async def test_a_schema_of_a_later_release_is_refused(postgres, postgres_url):
    await (await opened(postgres_url)).close()
    postgres.execute("UPDATE holdfast.meta SET value = 99 WHERE key = 'schema'", url=postgres_url)
    with pytest.raises(StoreVersion, match="schema version 99"):
        await opened(postgres_url)


async def test_many_processes_may_make_the_schema_at_once(postgres_url):
    stores = await asyncio.gather(*(opened(postgres_url) for _ in range(8)))
    assert await stores[0].dump() is not None
    for store in stores:
        await store.close()


async def test_a_user_with_too_few_rights_is_told_which(postgres, postgres_url):
    name = f"holdfast_{urlsplit(postgres_url).path[-12:]}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    try:
        netloc = urlsplit(postgres_url).netloc.replace("postgres@", f"{name}@")
        with pytest.raises(StoreSettings, match="GRANT CREATE ON DATABASE"):
            await opened(urlsplit(postgres_url)._replace(netloc=netloc).geturl())
    finally:
        postgres.execute(f"DROP ROLE {name}")


async def test_who_is_not_there_is_told_without_the_password():
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as told:
        await opened("postgresql://me:secret@127.0.0.1:1/shop")
    assert "secret" not in str(told.value)


async def test_a_database_that_is_not_there_is_named(postgres):
    with pytest.raises(StoreSettings, match="no_such"):
        await opened(urlsplit(postgres.url)._replace(path="/no_such").geturl())


async def test_a_server_newer_than_the_tests_is_named(postgres_store, caplog, monkeypatch):
    monkeypatch.setattr("holdfast.stores.postgres.checks.NEWEST", 13)
    with caplog.at_level(logging.WARNING):
        await (await opened(postgres_store)).close()
    assert "newer than what this release was tested with" in caplog.text


async def test_a_start_takes_one_statement_where_the_schema_is_there(postgres_store):
    store = await opened(postgres_store)
    assert store.statements == 1
    await store.close()


async def test_an_empty_schema_of_our_name_is_filled(postgres, postgres_url):
    postgres.execute("CREATE SCHEMA holdfast", url=postgres_url)
    store = await opened(postgres_url)
    assert await store.dump() is not None
    await store.close()


async def test_the_driver_asks_for_no_type(postgres_store):
    store = await opened(postgres_store)
    connection = await store._target.connect({})
    asked: list[str] = []
    connection.add_query_logger(lambda query: asked.append(query.query))
    arrays = ", ".join(f"'{{1}}'::{name}[]" for name in ARRAYS)
    [row] = await connection.fetch(f"SELECT {arrays}")
    await asyncio.sleep(0)  # the logger is called soon
    assert (list(map(len, row)), len(asked)) == ([1] * len(ARRAYS), 1)
    await connection.close()
    await store.close()


async def test_who_speaks_no_tls_is_asked_for_it_once(postgres_store):
    async with proxied(postgres_store) as proxy:
        target = Target(f"{proxy.url}?sslmode=prefer")
        for _ in range(3):
            await target.release(await target.connect({}))
        assert proxy.greetings == ["tls", "plain", "plain"]
        proxy.wants_tls = True
        await target.release(await target.connect({}))
        assert proxy.greetings[3:] == ["plain", "tls"], "asked again, now that it is wanted"


async def test_a_server_without_the_tls_that_is_wanted_is_refused_and_not_waited_for(
    postgres_store,
):
    async with proxied(postgres_store) as proxy:
        with pytest.raises(StoreSettings, match="speaks no TLS"):
            await Target(f"{proxy.url}?sslmode=require").connect({})


async def test_a_server_of_this_machine_is_asked_for_tls_only_if_it_wants_it(
    postgres_store, monkeypatch
):
    async with proxied(postgres_store) as proxy:
        target = Target(proxy.url)
        await target.release(await target.connect({}))
        assert proxy.greetings == ["plain"]
        proxy.wants_tls = True
        await target.release(await target.connect({}))
        assert proxy.greetings[1:] == ["plain", "tls"]
        monkeypatch.setenv("PGSSLMODE", "prefer")
        target = Target(proxy.url)
        await target.release(await target.connect({}))
        assert proxy.greetings[3:] == ["tls"], "the user has said so"


async def test_a_start_learns_the_way_from_its_one_question(postgres_store, monkeypatch):
    target, asked = Target(postgres_store), []
    learn = target._learn

    async def watched(connection, question):
        asked.append(question)
        return await learn(connection, question)

    monkeypatch.setattr(target, "_learn", watched)
    store = PostgresStore(target, rings=False)
    await store.open()
    assert (asked[0], store.statements, target.is_pooled) == (AT_HOME, 1, False)
    await store.close()


async def test_the_second_line_asks_nobody_who_answers(postgres_store, monkeypatch):
    target, asked = Target(postgres_store), []
    learn, ask = target._learn, target._ask

    async def learned(connection, question):
        assert store._errands, "another line is dialled meanwhile"
        asked.append(question)
        return await learn(connection, question)

    async def answered(connection, question):
        asked.append(question)
        return await ask(connection, question)

    monkeypatch.setattr(target, "_learn", learned)
    monkeypatch.setattr(target, "_ask", answered)
    store = PostgresStore(target, rings=False)
    await store.open()
    await asyncio.gather(*store._errands)
    assert (asked, store._writes.is_connected) == ([AT_HOME], True)
    await store.close()


async def test_should_the_first_line_fail_the_others_find_out_for_themselves(
    postgres_store, monkeypatch
):
    target = Target(postgres_store)
    learn, failing = target._learn, [ConnectionResetError("cut")]

    async def learned(connection, question):
        if failing:
            raise failing.pop()
        return await learn(connection, question)

    monkeypatch.setattr(target, "_learn", learned)
    first, second = await asyncio.gather(
        target.connect({}), target.connect({}), return_exceptions=True
    )
    assert isinstance(first, StoreUnavailable)
    assert not isinstance(second, BaseException)
    await target.release(second)


async def test_a_database_without_our_schema_answers_who_it_is(postgres_url):
    target = Target(postgres_url)
    met = await target.meet({}, AT_HOME)
    assert met.answer is not None
    assert ("pid" in met.answer, "present" in met.answer) == (True, False)
    await target.release(met.connection)


LIMITS = "SELECT current_setting('transaction_timeout', true)"


async def test_transactions_are_limited_where_the_server_can(postgres_url, monkeypatch):
    """On the first connection and on later ones, but for transactions of users."""
    target = Target(postgres_url)
    first, later, users = [await target.connect(with_) for with_ in ({}, {}, {LIMIT: "0"})]
    can = first.get_server_version().major >= LIMITS_FROM
    assert [await each.fetchval(LIMITS) for each in (first, later, users)] == (
        ["30s", "30s", "0"] if can else [None] * 3
    )
    monkeypatch.setattr("holdfast.stores.postgres.target.LIMITS_FROM", 99)
    older = Target(postgres_url)
    again = [await older.connect(with_) for with_ in ({}, {LIMIT: "0"})]
    assert {await each.fetchval(LIMITS) for each in again} == {"0" if can else None}
    for each in (first, later, users, *again):
        await each.close()


async def test_a_pooler_is_not_asked_to_limit_transactions(postgres_url):
    """What is set there would stay with a session that is lent to others."""
    async with proxied(postgres_url, refuses_settings=True) as proxy:
        target = Target(proxy.url)
        for _ in range(2):
            connection = await target.connect({})
            assert await connection.fetchval(LIMITS) in ("0", None)
            await connection.close()
