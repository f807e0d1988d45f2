"""An `async def` test is truly run, with its fixtures."""

import asyncio
from pathlib import Path

ran: list[str] = []


async def test_async_tests_run_on_a_loop_with_fixtures(tmp_path: Path) -> None:
    await asyncio.sleep(0)
    ran.append("first")
    assert tmp_path.is_dir()
    assert ran
