"""The PostgreSQL server of a run: one for all contenders, a new database for each measurement.

Whoever runs the rounds starts it; drivers find it by the environment, and make databases with
the server's own `psql`, because a peer's interpreter need not have any driver that we know.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator

STORE = "postgres"
ADDRESS, PSQL = "BENCH_POSTGRES", "BENCH_PSQL"
SETTINGS = ("fsync", "synchronous_commit")
SYNCS = "SELECT COALESCE(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'"
SYNCS_BEFORE_18 = "SELECT wal_sync FROM pg_stat_wal"


@contextlib.contextmanager
def server() -> Iterator[None]:
    """Run a durable server that drivers started in this block will find."""
    from holdfast.testing.postgres import PostgresServer, Programs  # not for peers

    with PostgresServer.start() as started:
        os.environ[ADDRESS], os.environ[PSQL] = started.url, Programs.find().path("psql")
        try:
            yield
        finally:
            del os.environ[ADDRESS], os.environ[PSQL]


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Lend the address of a new database."""
    name = f"bench_{secrets.token_hex(6)}"
    psql(f'CREATE DATABASE "{name}"', "CHECKPOINT")  # or it would fall into the measurement
    try:
        yield address(name)
    finally:
        psql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def psql(*statements: str, url: str = "") -> str:
    """Return what the statements print, each of them committed by itself."""
    if ADDRESS not in os.environ:
        raise SystemExit(f"There is no server: run `python -m benchmarks`, or set {ADDRESS}.")
    each = [word for statement in statements for word in ("-c", statement)]
    quiet = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url or os.environ[ADDRESS])
    command = [os.environ[PSQL], *quiet, *each]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout.strip()


def address(name: str) -> str:
    return f"{os.environ[ADDRESS].rpartition('/')[0]}/{name}"


def disk_bytes(url: str) -> int:
    """Return the size of a database, without the log that all databases share."""
    return int(psql("SELECT pg_database_size(current_database())", url=url))


def syncs() -> int:
    """Return how often the server has synced its log so far."""
    version = int(psql("SHOW server_version_num"))
    return int(psql(SYNCS if version >= 180_000 else SYNCS_BEFORE_18))
