"""Who is measured: an engine on a store, the driver that runs it, and the interpreter it needs.

Each peer lives in a virtual environment of its own, made here on first use outside the
repository (`$BENCH_VENVS`, by default `~/.cache/holdfast-bench`) from the pinned versions in
`peers/<name>.txt`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.postgres import STORE as POSTGRES

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True)
class Contender:
    engine: str
    store: str
    title: str
    works: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.engine}/{self.store}"

    @property
    def family(self) -> str:
        """The kind of database, by which contenders are compared."""
        return POSTGRES if self.store == POSTGRES else "sqlite"

    @property
    def module(self) -> str:
        raw = "raw_postgres" if self.store == POSTGRES else "raw"
        inside = {"holdfast": "ours", "raw": raw}
        return f"benchmarks.{inside.get(self.engine, f'peers.{self.engine}')}"

    @property
    def is_peer(self) -> bool:
        return self.engine not in ("holdfast", "raw")


FAMILIES = {"sqlite": "SQLite", POSTGRES: "PostgreSQL"}
CONTENDERS = (
    Contender("raw", "sqlite", "raw limit", ("w1",)),
    Contender("holdfast", "memory", "Holdfast, memory", ("w1", "w2", "w5")),
    Contender(
        "holdfast",
        "sqlite",
        "Holdfast, SQLite",
        ("w1", "w2", "w3", "w4", "w5", "w6", "w9", "w10", "w11", "w12", "w13", "w14"),
    ),
    Contender("langgraph", "sqlite", "LangGraph", ("w1", "w2", "w4", "w5", "w6")),
    Contender("dbos", "sqlite-wal", "DBOS, WAL on", ("w1", "w2", "w3", "w4", "w5", "w11")),
    Contender("dbos", "sqlite", "DBOS, as shipped", ("w1", "w2", "w3", "w4")),
    Contender("raw", POSTGRES, "raw limit", ("w1",)),
    Contender(
        "holdfast",
        POSTGRES,
        "Holdfast",
        ("w1", "w2", "w3", "w4", "w5", "w6", "w8", "w9", "w10", "w11", "w12", "w13", "w14"),
    ),
    Contender("langgraph", POSTGRES, "LangGraph", ("w1", "w2", "w4", "w5", "w6")),
    Contender("dbos", POSTGRES, "DBOS", ("w1", "w2", "w3", "w4", "w5", "w11")),
    Contender("pgqueuer", POSTGRES, "PgQueuer, to start", ("w3", "w13")),
    Contender("procrastinate", POSTGRES, "Procrastinate, to start", ("w3", "w13")),
)


class CannotInstall(Exception):
    """pip could not install a peer; its own words follow."""


def interpreter(contender: Contender) -> str:
    """Return the Python that can run this contender, making a peer's environment if need be."""
    if not contender.is_peer:
        return sys.executable
    return environment(contender.engine)


def environment(name: str) -> str:
    """Return the Python of the environment that `peers/<name>.txt` pins, made if need be."""
    wanted = pins(name)
    root = venvs() / f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    python, stamp = root / "bin" / "python", root / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        _make(root, python, name)
        stamp.write_text(wanted)
    return str(python)


def pins(engine: str) -> str:
    """Return the pinned versions of a peer, one `name==version` a line."""
    return (PEERS / f"{engine}.txt").read_text()


def venvs() -> Path:
    chosen = os.environ.get("BENCH_VENVS")
    return Path(chosen) if chosen else Path.home() / ".cache" / "holdfast-bench"


def _make(root: Path, python: Path, engine: str) -> None:
    requirements = str(PEERS / f"{engine}.txt")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(root)],
        [str(python), "-m", "pip", "install", "--quiet", "-r", requirements],
    ):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise CannotInstall(f"{' '.join(command)}\n{ended.stderr.strip()[-2000:]}")
