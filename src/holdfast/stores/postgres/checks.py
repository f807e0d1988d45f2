"""Start-up: can this database keep our promises, and is its schema of this release?"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Sequence
from typing import NamedTuple

import asyncpg

from holdfast.errors import StoreSettings, StoreUnavailable, StoreVersion
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import HOMELESS, caused, code_of, told
from holdfast.stores.postgres.statements import fragments, migrations, queries, statement
from holdfast.stores.postgres.target import Row, Target

log = logging.getLogger("holdfast.store")
SQL = queries()
AT_HOME = statement(",\n".join((fragments()["server"], fragments()["server_at_home"])))
OLDEST, NEWEST = 14, 18
LOCK = 0x484F4C44  # "HOLD": whoever has it migrates
NOT_ALLOWED = "42501"


class Greeted(NamedTuple):
    """What a database says in which we are at home."""

    now: int
    closed: str
    """The move that has closed the store, if one has."""
    holders: Sequence[str]
    """Workers that hold runs, each with the name of its process."""


async def greet(line: Line, target: Target) -> Greeted | None:
    """Connect, and check all that `check` and `migrate` do, in one statement.

    None if there is more to do than to ask: the schema is missing, or of an earlier release. That
    it is missing stands once in the server's log, as an error; to ask first would cost every start.
    """
    try:
        row = await line.meet(AT_HOME)
    except HOMELESS:
        return None
    if "present" not in row:  # somebody answered, who has no home for us
        return None
    *server, present, now, closed, holders = row
    _judge(server, target)
    is_ours = present is not None and _known(present) == len(migrations())
    return Greeted(now, closed or "", holders) if is_ours else None


async def check(line: Line, target: Target) -> None:
    """Refuse a server that would lose what it acknowledged, and one we do not know."""
    [row] = await line.fetch(SQL.server)
    _judge(row, target)


def _judge(server: Row, target: Target) -> None:
    version, recovers, encoding, fsync, commit, pages, idle, *_ = server
    if version < OLDEST:
        raise StoreSettings(
            f"PostgreSQL {version} is too old; {OLDEST} or newer is needed. Upgrade the server."
        )
    if recovers:
        raise StoreSettings(
            "This PostgreSQL is a standby: it cannot be written to. Name the primary in the URL."
        )
    if encoding != "UTF8":
        raise StoreSettings(
            f"The database has the encoding {encoding}; it must be UTF8. Create another one with "
            f"ENCODING 'UTF8' TEMPLATE template0."
        )
    if fsync != "on" or commit == "off":
        raise StoreSettings(
            f"PostgreSQL runs with fsync={fsync} and synchronous_commit={commit}, and would lose "
            f"what it has acknowledged. Set both to on."
        )
    # Known only now that there is a connection.
    _warn(version, pages, idle, target)


def _warn(version: int, pages: str, idle: str, target: Target) -> None:
    if version > NEWEST:
        log.warning("PostgreSQL %d is newer than what this release was tested with", version)
    if pages != "on":
        log.warning(
            "PostgreSQL runs with full_page_writes=off: after a crash a page may be torn, unless "
            "the file system writes pages whole"
        )
    if target.forgets:
        log.warning(
            "the pooler forgets prepared statements, so every statement takes four round trips: "
            "use pgbouncer 1.21 or later with max_prepared_statements above 0, or name the server"
        )
    if target.is_pooled and idle == "0":
        log.warning(
            "the pooler takes no settings, and the role has no idle_in_transaction_session_timeout:"
            " set it with ALTER ROLE, or a session whose client is gone may hold its locks for ever"
        )


async def migrate(line: Line) -> None:
    """Bring the schema to this release's version, one process at a time. Raises `StoreVersion`."""
    scripts = migrations()
    with _migrating():
        if await _version(line) == len(scripts):
            return
        async with line.transaction(is_long=True) as ask:
            await ask(SQL.lock_schema, key=LOCK)
            # Read again, under the lock: somebody else may have been faster.
            [[is_there]] = await ask(SQL.has_schema)
            present = (await ask(SQL.schema_version))[0][0] if is_there else 0
            for version, script in enumerate(scripts[present:], start=present + 1):
                await ask.script(script)
                await ask(SQL.mark_schema, version=version)


@contextlib.contextmanager
def _migrating() -> Generator[None]:
    """Tell apart what a second try may mend, and what a person must."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if code_of(error) == NOT_ALLOWED:
            meant: Exception = StoreSettings(
                f"The user of the URL has too few rights: {told(error)}. Once, it needs GRANT "
                f"CREATE ON DATABASE; later, to use the schema `holdfast` and all in it."
            )
        else:
            meant = StoreUnavailable(
                f"The schema could not be brought to this release's: {told(error)}. Start again; "
                f"nothing was changed."
            )
        raise caused(meant, error) from error


async def _version(line: Line) -> int:
    [[is_there]] = await line.fetch(SQL.has_schema)
    if not is_there:
        return 0
    return _known((await line.fetch(SQL.schema_version))[0][0])


def _known(present: int) -> int:
    """Return the schema's version, if it is none of a later release. Raises `StoreVersion`."""
    known = len(migrations())
    if present > known:
        raise StoreVersion(
            f"The database has schema version {present}, and this release knows {known}. "
            f"Upgrade holdfast, or name another database."
        )
    return present
