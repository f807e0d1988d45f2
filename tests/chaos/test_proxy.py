"""The wire breaks as it should: late, cut, deaf, or without the one answer that counts."""

import asyncio
import time
from urllib.parse import urlsplit

import asyncpg
import pytest

from chaos.places import through
from chaos.proxy import Frames, Gate

LOST = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)
PURPOSE = "holdfast writes"


def gate_to(url: str) -> Gate:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Gate(parts.hostname, parts.port)


async def connect(url: str, purpose: str = PURPOSE) -> asyncpg.Connection:
    return await asyncpg.connect(url, timeout=10, server_settings={"application_name": purpose})


async def test_a_swallowed_answer_is_of_a_statement_that_is_committed(postgres_url: str) -> None:
    straight = await connect(postgres_url)
    await straight.execute("CREATE TABLE t (n int)")
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate))
        swallowing = asyncio.create_task(gate.swallow(PURPOSE, 10))
        await asyncio.sleep(0)
        with pytest.raises(LOST):
            await wire.fetch("INSERT INTO t VALUES ($1) RETURNING n", 1)
        assert await swallowing
        assert await straight.fetchval("SELECT count(*) FROM t") == 1
        again = await connect(through(postgres_url, gate))
        await again.execute("INSERT INTO t VALUES (2)")
        assert await straight.fetchval("SELECT count(*) FROM t") == 2, "only one is swallowed"
        await again.close()
    await straight.close()


async def test_inside_a_transaction_it_is_the_commit_that_is_swallowed(postgres_url: str) -> None:
    straight = await connect(postgres_url)
    await straight.execute("CREATE TABLE t (n int)")
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate))
        transaction = wire.transaction()
        await transaction.start()
        swallowing = asyncio.create_task(gate.swallow(PURPOSE, 10))
        await asyncio.sleep(0)
        assert await wire.fetchval("INSERT INTO t VALUES ($1) RETURNING n", 1) == 1
        with pytest.raises(LOST):
            await transaction.commit()
        assert await swallowing
        assert await straight.fetchval("SELECT count(*) FROM t") == 1
    await straight.close()


async def test_connections_for_other_purposes_are_spared(postgres_url: str) -> None:
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate), "holdfast reads")
        swallowing = asyncio.create_task(gate.swallow(PURPOSE, 0.3))
        await asyncio.sleep(0)
        assert await wire.fetchval("SELECT $1::int", 5) == 5
        assert not await swallowing
        await wire.close()


async def test_a_black_hole_holds_everything_back_until_it_heals(postgres_url: str) -> None:
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate))
        gate.hold()
        asked = asyncio.create_task(wire.fetchval("SELECT 7"))
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert not done
        gate.heal()
        assert await asked == 7
        await wire.close()


async def test_a_cut_ends_every_connection_and_lets_new_ones_in(postgres_url: str) -> None:
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate))
        gate.cut()
        with pytest.raises(LOST):
            await wire.fetchval("SELECT 1")
        again = await connect(through(postgres_url, gate))
        assert await again.fetchval("SELECT 1") == 1
        await again.close()


async def test_a_delay_is_felt_in_each_direction(postgres_url: str) -> None:
    async with gate_to(postgres_url) as gate:
        wire = await connect(through(postgres_url, gate))
        gate.delay = 0.05
        began = time.monotonic()
        assert await wire.fetchval("SELECT 1") == 1
        assert time.monotonic() - began >= 0.1
        gate.delay = 0.0
        await wire.close()


def test_messages_are_found_however_the_stream_is_cut() -> None:
    stream = b"\0\0\0\x08hell" + b"B\0\0\0\x06ab" + b"Z\0\0\0\x05I"
    frames = Frames(is_client=True)
    found = [message for byte in stream for message in frames.feed(bytes([byte]))]
    assert found == [(ord("B"), b"ab"), (ord("Z"), b"I")]
    assert frames.startup == b"\0\0\0\x08hell"
