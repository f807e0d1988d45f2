"""Where the replay of continued runs may begin."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.events import Event, continuations
from holdfast.stores.postgres.connection import Ask
from holdfast.stores.postgres.statements import queries

SQL = queries()


async def add_bases(ask: Ask, ns: str, run: str, events: Sequence[Event]) -> None:
    """Note where the replay of a run may begin, of events that were just added."""
    rows = [{"ns": ns, "run": run, "seq": seq} for seq in continuations(events)]
    await ask.many(SQL.add_base, rows)
