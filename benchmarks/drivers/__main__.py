"""The command: a fresh server, both drivers in turns, and `DRIVERS.md`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import calibrate
from benchmarks.contenders import environment
from benchmarks.driver import ROOT
from benchmarks.drivers.statements import FILL, TABLES
from benchmarks.tables import number, table
from holdfast.testing.postgres import PostgresServer

RESULT = Path(__file__).parent.parent / "DRIVERS.md"
ROUNDS = 30
SETTINGS = ("server_version", "fsync", "synchronous_commit")
Measured = Mapping[str, Mapping[str, Mapping[str, float]]]

TEXT = """# Which PostgreSQL driver

Written by `make bench-drivers` on {date}: {rounds} turns of a twentieth of a second each, all
drivers in one process, medians of the turns. {machine}. PostgreSQL {server_version} (`fsync`
{fsync}, `synchronous_commit` {synchronous_commit}), {versions}.

The work is our store's: one statement a batch, which moves the runs (fenced, locked in id
order) and adds their events from arrays, committed before it returns; the history of a run of
1,000 events, loaded; ten due runs out of 100,000, claimed. *Processor* is the time of the
client's own thread: a worker has only one for all its bodies, so it bounds the rate.

{table}

{verdict}

*Nothing prepared* is what a pooler between transactions may ask for: psycopg then sends a
statement in one round trip, asyncpg in two, and the server plans it each time. pgbouncer from
1.21 on keeps prepared statements, and there the first lines hold. *Pipeline mode* spares round
trips between statements; a batch is one statement, so there is nothing to spare. *Blocking* is
what remains of psycopg without an event loop.

Prepared or not, the server plans a statement over arrays anew for every call (0.3 ms here)
unless `plan_cache_mode` is `force_generic_plan`; the connection that writes has it. The
connection that claims does not have it here: of this claim, the one plan for every `LIMIT` reads
the whole queue. In the store it has, with plans that sort turned off: the index is left.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drivers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path, default=RESULT, help="the file to write")
    asked = parser.parse_args()
    python = environment("drivers")
    with PostgresServer.start() as server, server.database() as url:
        server.execute(TABLES, *FILL, url=url)
        command = [python, "-m", "benchmarks.drivers.measure", url, str(asked.rounds)]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(ended.stdout)
        settings = {name: server.execute(f"SHOW {name}") for name in SETTINGS}
    page = TEXT.format(
        date=datetime.now(UTC).date().isoformat(),
        rounds=asked.rounds,
        machine=calibrate.describe()["processor"],
        versions=", ".join(f"{name} {of}" for name, of in told["versions"].items()),
        table=table_of(told["figures"]),
        verdict=verdict(told["figures"]),
        **settings,
    )
    asked.results.write_text(page)
    sys.stdout.write(page)
    return 0


def table_of(figures: Measured) -> str:
    header = [
        "",
        "one turn, p50 ms", "p99", "processor µs",
        "50 turns, p50 ms", "rows/s", "processor µs",
        "1,000 events, p50 ms", "processor µs",
        "claim of 10, p50 ms", "processor µs",
    ]  # fmt: skip
    return table(header, [row(way, of_way) for way, of_way in figures.items()])


def row(way: str, figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    one, many, load, claim = (figures[piece] for piece in ("one", "many", "load", "claim"))
    return [
        way,
        ms(one["p50"]), ms(one["p99"]), number(one["cpu"]),
        ms(many["p50"]), number(50 * 1e6 / many["p50"]), number(many["cpu"]),
        ms(load["p50"]), number(load["cpu"]),
        ms(claim["p50"]), number(claim["cpu"]),
    ]  # fmt: skip


def ms(microseconds: float) -> str:
    return number(microseconds / 1e3)


def verdict(figures: Measured) -> str:
    """Say in figures what decides: the processor time of a batch, small and large."""
    one, many = (
        figures["psycopg"][piece]["cpu"] / figures["asyncpg"][piece]["cpu"]
        for piece in ("one", "many")
    )
    better = "asyncpg" if one * many > 1 else "psycopg"
    return (
        f"psycopg spends {one:.2f} times the processor time of asyncpg on one turn and {many:.2f} "
        f"times on 50, so the store uses {better}."
    )


if __name__ == "__main__":
    sys.exit(main())
