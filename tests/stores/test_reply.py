"""What a session hears of its commits, and what it need not."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from holdfast.errors import OutcomeUnknown
from holdfast.ports.reply import tell


async def test_an_answer_that_failed_need_not_be_looked_at() -> None:
    complaints: list[dict[str, Any]] = []
    heard = asyncio.Event()

    async def fails() -> None:
        raise OutcomeUnknown("Who knows.")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: complaints.append(told))
    tell(fails(), lambda _: heard.set())
    await heard.wait()
    gc.collect()
    assert complaints == []
