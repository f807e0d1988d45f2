"""The S3 server dies while a payload is on its way: nothing is lost, nothing is named too soon."""

import asyncio
import random
from pathlib import Path
from typing import cast

import pytest

import holdfast as hf
from holdfast.stores.sealed import SealedStore
from holdfast.testing import invariants
from tests.s3 import S3Server

pytestmark = pytest.mark.proof

SIZE = 1_500_000
ROUNDS = 6
FAST = hf.Settings(poll=0.05)

app = hf.App("uploads")


@app.step(retry=hf.Retry(initial=0.01, max_attempts=50))
async def made(n: int) -> str:
    return f"{n}".zfill(4) * (SIZE // 4)


@app.workflow
async def uploading(rounds: int) -> int:
    parts = [await made(n) for n in range(rounds)]
    return sum(len(part) for part in parts)


async def test_a_server_killed_in_the_middle_of_uploads_loses_nothing(
    s3_server: S3Server, tmp_path: Path
) -> None:
    chance = random.Random(7)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with app.open(url, blobs=s3_server.url("killed"), settings=FAST) as client:
        store = cast("SealedStore", client.engine.store)
        assert store.blobs is not None
        runs = [await client.start(uploading.bind(ROUNDS), id=f"r{n}") for n in range(4)]
        for _ in range(1):
            await asyncio.sleep(0.05 + chance.random() * 0.1)
            s3_server.kill()
            named_while_away = await store.named_blobs()
            await asyncio.to_thread(s3_server.start)
            store.blobs.known.clear()
            found = await store.blobs.fetched(tuple(named_while_away))
            assert all(data is not None for data in found.values())
        async with asyncio.timeout(50):
            assert [await run.result() for run in runs] == [SIZE * ROUNDS] * 4
        assert invariants.check(await store.dump()) == []
        collected = await store.collect(grace=-60_000_000)
        left = [blob async for page in store.blobs.store.list() for blob in page]
        assert {blob.name for blob in left} == await store.named_blobs()
        assert len(left) == collected.blobs - collected.collected
