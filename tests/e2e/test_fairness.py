"""Two processes that write all the time get a fair share each: `flock` waits in a queue."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT

WRITER = """
    import asyncio, sys, time
    from holdfast.model.writes import Renew
    from holdfast.stores.sqlite import SqliteStore

    async def main(path, name):
        store = SqliteStore(path)
        await store.open()
        print("ready", flush=True)
        sys.stdin.readline()
        until, count = time.monotonic() + 1.5, 0
        while time.monotonic() < until:
            await store.write([Renew(name, 1_000_000)])
            count += 1
        print(count, flush=True)
        await store.close()

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.timeout(60)
def test_two_writers_get_a_fair_share(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    def start(name: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path / "x.db"), name]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    writers = [start("one"), start("two")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    counts = [int(writer.communicate(timeout=30)[0]) for writer in writers]
    told = f"fairness: two processes made {counts[0]} and {counts[1]} commits in 1.5 s"
    record_property("e2e", told)
    assert min(counts) > 10
    assert min(counts) * 4 > max(counts), counts
