"""Opening a database file: settings that keep our promises, checked by reading them back."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path

from holdfast.errors import StoreSettings, StoreUnavailable, StoreVersion
from holdfast.stores.sqlite.statements import migrations

APPLICATION_ID = 0x484F4C44  # "HOLD"
CHECKPOINT_PAGES = 128
"""Pages in the log before it is copied into the file: whoever opens the file after a crash reads
them all."""
CREATED = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|VIEW|INDEX|TRIGGER) (\w+)")
OLDEST = (3, 37, 0)
"""STRICT tables, RETURNING and UPSERT are all there from this version on."""


def connect(path: Path, *, writes: bool) -> sqlite3.Connection:
    """Return a connection in autocommit mode, durable at every commit.

    Raises `StoreSettings`, also for the file of another program, which is not touched.
    """
    try:
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=5.0
        )
        try:
            if writes:
                _must_have_room(connection, path)
            _configure(connection, writes=writes)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    return connection


def is_ours(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has our mark: every migration leaves it."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0]) == APPLICATION_ID


def _must_have_room(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreSettings` if a schema of ours is not there and cannot be made beside what is."""
    if is_ours(connection):
        return
    marks = [
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    ]
    there = {str(name) for [name] in connection.execute("SELECT name FROM sqlite_schema")}
    if any(marks) or there & set(CREATED.findall("".join(migrations()))):
        raise StoreSettings(
            f"{str(path)!r} is the database of another program; nothing in it was changed. "
            f"Name another file."
        )


def _configure(connection: sqlite3.Connection, *, writes: bool) -> None:
    execute = connection.execute
    execute("PRAGMA trusted_schema = OFF")
    if not writes:
        execute("PRAGMA query_only = ON")
        return
    mode = execute("PRAGMA journal_mode = WAL").fetchone()[0]
    execute("PRAGMA synchronous = FULL")
    execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    execute(f"PRAGMA journal_size_limit = {64 * 1024 * 1024}")
    synchronous = execute("PRAGMA synchronous").fetchone()[0]
    if mode != "wal" or synchronous != 2:
        raise StoreSettings(
            f"The database runs with journal_mode={mode} and synchronous={synchronous}; "
            f"it must be wal and 2 (FULL). Put the file on a local disk."
        )


def prepare(path: Path) -> None:
    """Make sure the file can exist and that only its owner can read it."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise StoreSettings(
            f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed. "
            f"Use a Python that is linked with a newer one."
        )
    if not path.parent.is_dir():
        raise StoreSettings(
            f"The folder {str(path.parent)!r} does not exist. Create it, or name another file."
        )
    if path.is_dir():
        raise StoreSettings(f"{str(path)!r} is a folder. Name a file in it.")
    if not path.exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreSettings(
                f"Cannot create {str(path)!r}: {error.strerror}. Choose a folder you may write to."
            ) from error


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema to this release's version. Call it with the file lock held."""
    scripts = migrations()
    present = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if present > len(scripts):
        raise StoreVersion(
            f"The database has schema version {present}, and this release knows {len(scripts)}. "
            f"Upgrade holdfast, or open another file."
        )
    for version, script in enumerate(scripts[present:], start=present + 1):
        # One transaction a migration: killed in the middle, it has not happened.
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\n"
            f"PRAGMA user_version = {version};\nPRAGMA application_id = {APPLICATION_ID};\nCOMMIT;"
        )


def unusable(path: Path, error: sqlite3.Error) -> StoreUnavailable | StoreSettings:
    """Translate the driver's error on opening."""
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return StoreSettings(f"{str(path)!r} is not a usable SQLite database: {text}. "
                             f"Restore it from a backup, or name another file.")  # fmt: skip
    if "readonly" in text:
        return StoreSettings(f"{str(path)!r} and its folder cannot be written to: {text}. "
                             f"Give this user the right to write, or name others.")  # fmt: skip
    return StoreUnavailable(f"Cannot open {str(path)!r}: {text}. Try again.")
