"""A random secret goes through start, step, error, retry, crash and resume, and is written nowhere.

Looked at: the database file with its log and its shared memory, a dump of PostgreSQL, what the
process prints and logs at DEBUG, exports, and what the commands show.
"""

import os
import secrets
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

import holdfast as hf
from holdfast.testing.postgres import Programs
from tests.e2e import canary

pytestmark = pytest.mark.proof

MARKER = canary.MARKER.encode()


class Field:
    """A directory with everything that is written, and the secrets that must not be in it."""

    def __init__(self, folder: Path, url: str, keys: str) -> None:
        self.folder, self.url = folder, url
        self.own, self.given = f"own/{secrets.token_hex(16)}+", f"given {secrets.token_hex(16)}"
        self.env = {
            **os.environ, "CANARY_OWN": self.own, "GIVEN": self.given, "HOLDFAST_STORE": url,
            "HOLDFAST_KEYS": keys,
        }  # fmt: skip

    def run(self, name: str, *, until: str = "", **env: str) -> None:
        """Run the program to its end, or kill it when it has printed `until` twice: in a workflow
        and in a graph.
        """
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, canary.__file__, self.url], env={**self.env, **env},
                stdout=subprocess.PIPE, stderr=log, cwd=self.folder,
            )  # fmt: skip
            printed = b""
            with process as running:
                assert running.stdout is not None
                for line in running.stdout:
                    printed += line
                    if until and printed.count(until.encode()) == 2:
                        running.kill()
        (self.folder / f"{name}.out").write_bytes(printed)
        assert process.returncode == (-9 if until else 0), (self.folder / f"{name}.log").read_text()

    def type(self, *words: str) -> None:
        """Keep what a command prints."""
        command = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(command, env=self.env, capture_output=True, check=True)
        (self.folder / f"{'-'.join(words)}.out").write_bytes(done.stdout + done.stderr)

    def dump(self, name: str) -> None:
        """Keep a dump of a PostgreSQL database."""
        if self.url.startswith("postgresql"):
            pg_dump = Programs.find().path("pg_dump")
            done = subprocess.run([pg_dump, self.url], capture_output=True, check=True)
            (self.folder / f"{name}.sql").write_bytes(done.stdout)

    def found(self, what: bytes) -> list[str]:
        """Return the files that hold these bytes, or what they are in hex or base64."""
        forms = (what, what.hex().encode(), b64encode(what)[:-4], quote(what.decode()).encode())
        files = [file for file in sorted(self.folder.rglob("*")) if file.is_file()]
        return [file.name for file in files if any(form in file.read_bytes() for form in forms)]


@pytest.fixture(params=["plain", "encrypted"])
def keys(request: pytest.FixtureRequest) -> str:
    return f"k1:{hf.KeyRing.new_key()}" if request.param == "encrypted" else ""


@pytest.fixture(params=["sqlite", "postgres"])
def field(request: pytest.FixtureRequest, tmp_path: Path, keys: str) -> Field:
    if request.param == "postgres":
        return Field(tmp_path, request.getfixturevalue("postgres_url"), keys)
    return Field(tmp_path, f"sqlite:///{tmp_path / 'canary.db'}", keys)


@pytest.mark.timeout(180)
def test_a_secret_is_in_no_byte_that_is_written(field: Field, keys: str) -> None:
    field.run("first", until="hanging", HANG="1")
    field.dump("after-the-crash")
    stored = {"canary.db", "canary.db-wal", "after-the-crash.sql"}
    assert bool(stored.intersection(field.found(MARKER))) is not bool(keys), "payloads are there"
    assert field.found(field.own.encode()) == field.found(field.given.encode()) == []
    field.run("second")
    field.dump("at-the-end")
    for run in ("good", "bad", "walk", "lose"):
        for verb in ("export", "show", "logs", "why"):
            field.type("runs", verb, run)
    told = {"runs-export-good.out", "runs-logs-bad.out", "runs-export-walk.out"}
    assert told <= set(field.found(MARKER))
    assert field.found(field.own.encode()) == field.found(field.given.encode()) == []
