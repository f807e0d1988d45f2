"""Worlds in PostgreSQL: one database, emptied for each, and connections that are used again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.statements import Statement
from holdfast.stores.postgres.target import Connection, Met, Target
from holdfast.testing.inline import Elsewhere, InlineStore

Clock = Callable[[], int]

EMPTIED = """
DO $$ DECLARE kept text; BEGIN
  FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' AND tablename <> 'meta'
  LOOP EXECUTE format('DELETE FROM holdfast.%I', kept); END LOOP;
  DELETE FROM holdfast.meta WHERE key <> 'schema';
  FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
  LOOP EXECUTE format('DROP TABLE public.%I CASCADE', kept); END LOOP;
END $$
"""
"""Forgets every row, and leaves our schema. Tables of steps go too: a world begins without."""


class Shared(Target):
    """Lends connections, and takes them back: to open one takes longer than most worlds."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._idle: dict[frozenset[tuple[str, str]], list[Connection[Any]]] = {}
        self._known: dict[Connection[Any], frozenset[tuple[str, str]]] = {}

    async def meet(self, settings: Mapping[str, str], question: Statement) -> Met:
        """Return a connection that nobody uses, or a new one."""
        kind = frozenset(settings.items())
        idle = self._idle.setdefault(kind, [])
        while idle and idle[-1].is_closed():  # the server has ended it meanwhile
            idle.pop()
        met = Met(idle.pop(), None) if idle else await super().meet(settings, question)
        self._known[met.connection] = kind
        return met

    async def release(self, connection: Connection[Any]) -> None:
        """Take it back."""
        self._idle[self._known[connection]].append(connection)

    async def close(self) -> None:
        """Close all of them."""
        for connection in self._known:
            await connection.close()


class Database:
    """Gives an empty home at each call: whatever the schema held is deleted."""

    def __init__(self, url: str, elsewhere: Elsewhere) -> None:
        self._target, self._elsewhere = Shared(url), elsewhere

    def __str__(self) -> str:
        return "postgres"

    def migrate(self) -> None:
        """Make the schema, once."""
        store = PostgresStore(self._target, rings=False)
        self._elsewhere.call(store.open())
        self._elsewhere.call(store.close())

    def __call__(self) -> DatabaseHome:
        self._elsewhere.call(self._empty())
        return DatabaseHome(self._target, self._elsewhere)

    async def _empty(self) -> None:
        connection = await self._target.connect({})
        await connection.execute(EMPTIED)
        await self._target.release(connection)

    def close(self) -> None:
        """Hang up."""
        self._elsewhere.call(self._target.close())


class DatabaseHome:
    """One world's data: every process of it has a store of its own."""

    owns = True

    def __init__(self, target: Target, elsewhere: Elsewhere) -> None:
        self._target, self._elsewhere = target, elsewhere
        self._stores: list[InlineStore] = []

    def store(self, clock: Clock) -> InlineStore:
        """Return a store on the database, whose time is `clock`."""
        inner = PostgresStore(self._target, clock=clock, rings=False)
        self._stores.append(InlineStore(inner, self._elsewhere))
        return self._stores[-1]

    def is_closed(self, ns: str, run: str) -> bool:
        """Look at the row, through the store of the first to come: the observer."""
        loaded = self._elsewhere.call(self._stores[0].inner.load(ns, run))
        return loaded is not None and loaded.run.closed_at is not None

    async def leave(self) -> None:
        """Close the stores of the dead."""
        for store in self._stores:
            if store.is_open:
                await store.close()
