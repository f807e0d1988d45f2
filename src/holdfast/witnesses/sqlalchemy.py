"""A witness in any database that SQLAlchemy reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import MissingExtra
from holdfast.model.deeds import Deed
from holdfast.witnesses.rows import LONGEST, PAGE, TABLE, before, now, outcome_of, short

if TYPE_CHECKING:
    from sqlalchemy import Table
    from sqlalchemy.orm import Session


class SqlAlchemyWitness:
    """`SqlAlchemyWitness(sessionmaker(engine))`: anything that returns a new session.

    Steps get the `Session`, in a transaction that they must not end.
    """

    def __init__(self, sessions: Callable[[], Session]) -> None:
        try:
            self._table = _table()
        except ImportError as error:
            raise MissingExtra(what="SqlAlchemyWitness", extra="sqlalchemy") from error
        self._sessions, self._is_there = sessions, False

    def once(self, deed: Deed, work: Callable[[Session], bytes]) -> bytes:
        """Do `work` unless it was done; return what came of it."""
        try:
            return self._attempt(deed, work)
        except _Met:
            return self._attempt(deed, work)  # somebody else did it meanwhile

    def prune(self, older_than: timedelta) -> int:
        """Forget deeds that were done so long ago; return how many."""
        with self._session() as session, session.begin():
            old = self._table.c.done_at < before(older_than)
            found: Any = session.execute(self._table.delete().where(old))
            return int(found.rowcount)

    def runs(self, ns: str, older_than: timedelta, after: str = "") -> list[str]:
        """Return runs that did something so long ago, in order, some at a time."""
        from sqlalchemy import select

        columns = self._table.c
        old = (columns.ns == ns, columns.run > after, columns.done_at < before(older_than))
        asked = select(columns.run).where(*old).distinct().order_by(columns.run).limit(PAGE)
        with self._session() as session, session.begin():
            return [str(run) for (run,) in session.execute(asked)]

    def forget(self, ns: str, runs: Sequence[str], older_than: timedelta) -> int:
        """Forget what these runs did so long ago; return how many deeds."""
        columns = self._table.c
        old = (columns.ns == ns, columns.run.in_(runs), columns.done_at < before(older_than))
        with self._session() as session, session.begin():
            found: Any = session.execute(self._table.delete().where(*old))
            return int(found.rowcount)

    def _attempt(self, deed: Deed, work: Callable[[Session], bytes]) -> bytes:
        from sqlalchemy import select
        from sqlalchemy.exc import IntegrityError

        table, columns = self._table, self._table.c
        name = {
            "ns": deed.ns, "run": deed.run, "generation": deed.generation, "step": short(deed.key),
        }  # fmt: skip
        mine = [columns[column] == value for column, value in name.items()]
        with self._session() as session, session.begin():
            found = session.execute(select(columns.outcome).where(*mine)).one_or_none()
            if found is not None:
                return outcome_of(deed, found[0])
            try:
                # Whoever comes second waits here for the first to commit or to fail.
                session.execute(table.insert().values(**name, epoch=deed.epoch, done_at=now()))
            except IntegrityError as error:
                raise _Met from error
            outcome = work(session)
            session.flush()
            session.execute(table.update().where(*mine).values(outcome=outcome))
            return outcome

    def _session(self) -> Session:
        """Return a new session; make the table at the first."""
        if not self._is_there:
            with self._sessions() as session, session.begin():
                self._table.create(session.connection(), checkfirst=True)
            self._is_there = True
        return self._sessions()


class _Met(Exception):
    """Another worker did the same at the same time."""


def _table() -> Table:
    from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, String, Table

    def text(name: str) -> Column[str]:
        return Column(name, String(LONGEST), primary_key=True)

    def number(name: str, *, key: bool = False) -> Column[int]:
        return Column(name, BigInteger, primary_key=key, nullable=False, autoincrement=False)

    return Table(
        TABLE, MetaData(), text("ns"), text("run"), number("generation", key=True), text("step"),
        number("epoch"), number("done_at"), Column("outcome", LargeBinary),
    )  # fmt: skip
