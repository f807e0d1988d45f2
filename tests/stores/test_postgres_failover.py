"""A primary dies and its standby takes its place: real servers, named together in one URL."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast as hf
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.stores.postgres.target import Target
from holdfast.testing.postgres import VARIABLE, PostgresServer
from tests.e2e.processes import Yard, until
from tests.e2e.shop import app, order, result_of_order

pytestmark = pytest.mark.proof

RUNS = 40
HOST = {"poll": 0.2, "lease": 5.0, "renew": 1.0}
SYNCHRONOUS = (
    "ALTER SYSTEM SET synchronous_standby_names = '*'",
    "SELECT pg_reload_conf()",
)
IN_STEP = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


@contextmanager
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and its synchronous standby."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start() as primary, primary.standby() as standby:
        primary.execute(*SYNCHRONOUS)
        until(lambda: primary.execute(IN_STEP) == "1", "the standby is in step")
        yield primary, standby


def both(*servers: PostgresServer) -> str:
    """Return one URL that names all of them, as libpq has it."""
    hosts = ",".join(urlsplit(server.url).netloc.rpartition("@")[2] for server in servers)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"


async def port_of(target: Target) -> int:
    """Return where a new connection leads."""
    connection = await target.connect({})
    try:
        return int(await connection.fetchval("SELECT inet_server_port()"))
    finally:
        await connection.close()


def port(server: PostgresServer) -> int:
    found = urlsplit(server.url).port
    assert found is not None
    return found


@pytest.mark.timeout(60)
async def test_only_the_primary_of_today_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(monkeypatch) as (old, new):
        with pytest.raises(StoreUnavailable, match=r"^PostgreSQL at .* cannot be written to"):
            await port_of(Target(new.url))
        target = Target(both(new, old))
        assert await port_of(target) == port(old), "the other is a standby"
        old.crash()
        with pytest.raises(StoreUnavailable):
            await port_of(target)
        new.promote()
        assert await port_of(target) == port(new)
        old.recover()
        assert await port_of(target) == port(new), "who was good is asked first"
        assert await port_of(Target(both(old, new))) == port(new), "who starts looks at all"
        new.crash()
        with pytest.raises(StoreUnavailable, match="of before a failover"):
            await port_of(target)


async def test_why_no_server_can_be_used_is_told_for_each() -> None:
    target = Target("postgresql://me:secret@127.0.0.1:1,127.0.0.1:2/shop")
    with pytest.raises(
        StoreUnavailable, match=r"127\.0\.0\.1:1/shop: .*127\.0\.0\.1:2/shop"
    ) as told:
        await port_of(target)
    assert "secret" not in str(told.value)
    assert target.place == "127.0.0.1:1,127.0.0.1:2/shop"


async def surely(client: hf.Client, n: int, name: str) -> hf.RunHandle[int]:
    """Start a run; repeat with the same id what was not acknowledged."""
    while True:
        try:
            return await client.start(order.bind(n), id=f"{name}-{n}")
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(0.05)


async def result_of(run: hf.RunHandle[int]) -> int:
    while True:
        try:
            return await run.result()
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(0.05)


async def carried_out(client: hf.Client, name: str, half: Any = None) -> list[hf.RunHandle[int]]:
    """Start all, do something when half of them were acknowledged, see that all come right."""
    runs = list[hf.RunHandle[int]]()
    happening: asyncio.Future[Any] | None = None
    for n in range(1, RUNS + 1):
        runs.append(await surely(client, n, name))
        if half is not None and n == RUNS // 2:
            happening = asyncio.ensure_future(asyncio.to_thread(half))
    if happening is not None:
        await happening
    results = await asyncio.gather(*map(result_of, runs))
    assert results == [result_of_order(n) for n in range(1, RUNS + 1)]
    return runs


@pytest.mark.timeout(120)
async def test_hosts_go_on_at_the_new_primary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pair(monkeypatch) as (old, new):
        yard = Yard(tmp_path, both(old, new))

        def fail_over() -> None:
            until(lambda: len(yard.lines()) > RUNS // 4, "steps are under way")
            old.crash()
            new.promote()

        async with app.open(yard.url, worker=False) as client:
            with yard.worker(**HOST) as one, yard.worker(**HOST) as other:
                runs = await carried_out(client, "before", fail_over)
                # The old one comes back, as the primary that it was, and everybody must reconnect.
                old.recover()
                new.execute(OTHERS)
                runs += await carried_out(client, "after")
                assert (one.poll(), other.poll()) == (None, None)
        held = await yard.dump()
        assert {run.id for run in held.runs} == {run.id for run in runs}, "nothing is lost"
        on_the_old_one = "SELECT count(*) FROM holdfast.runs WHERE id LIKE 'after%'"
        assert old.execute(on_the_old_one) == "0"
