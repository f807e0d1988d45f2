"""A nightly job over many files, by the clock. It kills itself in the middle, and goes on.

Run it: python examples/nightly.py
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import holdfast as hf

app = hf.App("nightly")
FILES = 40
JOURNAL = Path("nightly.txt")  # what really ran, written down outside of Holdfast


@app.step
def extract(file: int) -> list[int]:
    with JOURNAL.open("a") as journal:
        journal.write(f"{file}\n")
    if "--crash" in sys.argv and len(JOURNAL.read_text().split()) >= FILES // 2:
        os.kill(os.getpid(), signal.SIGKILL)  # no clean-up, no good-bye
    return [file, file * file]


@app.step
def load(rows: list[list[int]]) -> int:
    return sum(square for _, square in rows)


@app.workflow
async def nightly(files: int) -> int:
    few = asyncio.Semaphore(4)

    async def one(file: int) -> list[int]:
        async with few:
            return await extract(file)

    return await load(await asyncio.gather(*(one(file) for file in range(files))))


# Every night at two in Berlin, once, however many workers there are: `holdfast worker` is enough.
at_two = hf.Schedule(cron="0 2 * * *", zone="Europe/Berlin")
app.schedule("nightly", nightly.bind(FILES), at_two)


async def work() -> None:
    async with app.open("sqlite:///nightly.db") as client:
        run = await client.schedules.trigger("nightly", key="now")  # who waits for the night?
        print(f"loaded: {await client.get(run).result()}")


if __name__ == "__main__":
    if "--crash" not in sys.argv:
        os.chdir(tempfile.mkdtemp())
        crashed = subprocess.run([sys.executable, __file__, "--crash"], check=False)
        print(f"killed by signal {-crashed.returncode} in the middle of {FILES} files")
    asyncio.run(work())
    ran = JOURNAL.read_text().split()
    print(f"{len(ran)} executions of {len(set(ran))} files: only what was cut short ran twice")
