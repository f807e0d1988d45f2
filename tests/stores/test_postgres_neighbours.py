"""What a process of this machine held when it was killed goes on before its lease is over."""

import subprocess
import sys
from pathlib import Path

from holdfast.model.writes import Claim
from holdfast.stores.postgres import PostgresStore

HOLDER = """
import asyncio, sys
import holdfast as hf

app = hf.App("shop")

@app.step
async def hang() -> None:
    print("held", flush=True)
    await asyncio.Event().wait()

@app.workflow
async def order() -> None:
    await hang()

async def main() -> None:
    async with app.open(sys.argv[1]) as client:
        await (await client.start(order.bind(), id="o-1")).result()

asyncio.run(main())
"""
LOOK = Claim("default", "me", ("order",), limit=0, lease=30_000_000)


async def test_a_killed_process_of_this_machine_is_known_dead_at_once(
    postgres_store: str, tmp_path: Path
) -> None:
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    store = PostgresStore(postgres_store)
    await store.open()
    command = [sys.executable, str(script), postgres_store]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert (await store.claim(LOOK)).dead == ()
            holder.kill()
        [(_, is_known)] = (await store.claim(LOOK)).dead
        assert is_known
    finally:
        await store.close()
