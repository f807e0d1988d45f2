"""An audit of the disk: nothing is acknowledged before the log that holds it was synced.

`kill -9` cannot show this, because what was written and not synced survives a process's death. So a
real workload runs under strace, and its system calls are read in order.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.processes import ROOT, Yard

CALLS = "trace=pwrite64,write,fdatasync,fsync,sendto"
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<rest>.*)$")
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>")


class Audit(NamedTuple):
    """What a trace holds: writes and syncs of the log, acknowledgements, and those too early."""

    writes: int
    syncs: int
    acks: int
    early: list[str]


def trace(yard: Yard, folder: Path, *given: str) -> list[str]:
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("The audit of fsync needs strace: apt-get install strace")
    out = folder / "trace"
    command = [strace, "-f", "-y", "-s", "64", "-e", CALLS, "-o", str(out)]
    work = [sys.executable, "-m", "tests.e2e.acks", str(yard.path), *given]
    done = subprocess.run(
        [*command, *work], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return out.read_text(errors="replace").splitlines()


def log_calls(lines: list[str], log: str) -> Iterator[tuple[str, str]]:
    """Yield `write`, `sync` or `ack` as each took effect, with its line.

    A write counts from its beginning and a sync from its end, the hard way round for us.
    """
    syncing: dict[str, str] = {}
    for line in lines:
        call, resumed = CALL.match(line), RESUMED.match(line)
        if resumed is not None and syncing.pop(resumed["pid"], "") == resumed["name"]:
            yield "sync", line
        elif call is None:
            continue
        elif call["name"] in ("fdatasync", "fsync") and log in call["rest"]:
            if "<unfinished" in line:
                syncing[call["pid"]] = call["name"]
            else:
                yield "sync", line
        elif call["name"] == "pwrite64" and log in call["rest"]:
            yield "write", line
        elif call["name"] == "write" and '"ACK ' in call["rest"]:
            yield "ack", line


def audit(lines: list[str], log: str) -> Audit:
    """Look for acknowledgements between a write to the log and its sync."""
    is_dirty, counts, early = False, {"write": 0, "sync": 0, "ack": 0}, list[str]()
    for what, line in log_calls(lines, log):
        counts[what] += 1
        if what == "ack" and is_dirty:
            early.append(line)
        is_dirty = what == "write" or (is_dirty and what != "sync")
    return Audit(counts["write"], counts["sync"], counts["ack"], early)


@pytest.mark.timeout(120)
def test_the_log_is_synced_before_each_acknowledgement(
    yard: Yard, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = audit(trace(yard, tmp_path), f"{yard.path.name}-wal>")
    told = f"{found.writes} writes, {found.syncs} syncs, {found.acks} acknowledgements"
    record_property("e2e", f"fsync audit: {told}, {len(found.early)} early")
    assert found.early == []
    assert found.acks == 25 * 3 + 5 * 2
    assert found.syncs >= 25 * 3, "a commit of its own for each of a lone run's acknowledgements"


@pytest.mark.timeout(120)
def test_the_audit_finds_a_database_that_does_not_sync(yard: Yard, tmp_path: Path) -> None:
    found = audit(trace(yard, tmp_path, "off"), f"{yard.path.name}-wal>")
    assert len(found.early) > 25
