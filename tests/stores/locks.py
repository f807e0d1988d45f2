"""Who waits for whom on PostgreSQL, seen from a session beside them."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def waiting(beside: "asyncpg.Connection", sessions: int = 1) -> None:
    """Return when so many sessions of its database wait for a lock."""
    async with asyncio.timeout(10):
        while await beside.fetchval(WAITING) != sessions:
            pass
