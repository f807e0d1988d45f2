"""`holdfast move`, as it is typed."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from tests.cli import sample
from tests.cli.conftest import Type

GREET = "greeting"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'target.db'}"


@pytest.fixture
def filled(url: str) -> str:
    async def start() -> None:
        async with sample.app.open(url, worker=False) as client:
            await client.start(sample.app.workflows["greet"].bind("ada"), id=GREET, tags=["vip"])

    asyncio.run(start())
    return url


def test_a_move_tells_machines_what_was_moved(typed: Type, filled: str, target: str) -> None:
    told = json.loads(typed("move", filled, target, "--json").stdout)
    assert (told["rows"]["runs"], told["rows"]["run_tags"], told["examined"]) == (1, 1, True)
    assert told["target"] == target
    assert json.loads(typed("runs", "list", "--store", target, "--json").stdout)[0]["id"] == GREET
    again = json.loads(typed("move", filled, target, "--json").stdout)
    assert (again["move"], again["rows"]) == (told["move"], told["rows"])
    lines = typed("move", filled, target).stdout.splitlines()
    assert "runs\t1" in lines


def test_a_move_tells_people_what_to_type_next(typed: Type, filled: str, target: str) -> None:
    told = typed("move", filled, target, person=True)
    assert "1 run with 1 event moved to" in told.stdout
    assert f"holdfast doctor --store {target}" in told.stdout


def test_a_moved_store_is_sound_and_tells_where_its_runs_went(
    typed: Type, filled: str, target: str
) -> None:
    typed("move", filled, target)
    for store, place in ((filled, target), (target, None)):
        doctor = typed("doctor", "--store", store, "--json")
        told = json.loads(doctor.stdout)
        assert (doctor.exit_code, told["moved_to"], told["degraded"]) == (0, place, "")
        assert told["violations"] == []
    assert f"moved to {target}" in typed("doctor", person=True).stdout
    assert f"moved\t{target}" in typed("doctor").stdout
    refused = typed("runs", "cancel", GREET)
    assert refused.exit_code == 5
    assert f"moved to {target}" in refused.output
    assert "HF608" in refused.output
    worker = typed("worker", sample.__file__)
    assert worker.exit_code == 5
    assert "HF608" in worker.output


def test_a_look_changes_nothing_and_names_what_is_in_the_way(
    typed: Type, filled: str, target: str, tmp_path: Path
) -> None:
    told = json.loads(typed("move", filled, target, "--dry-run", "--json").stdout)
    assert (told["rows"]["runs"], told["problems"]) == (1, [])
    assert not (tmp_path / "target.db").exists()
    typed("move", filled, target)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert "moved to" in typed("move", filled, other, "--dry-run", person=True).stdout
    problems = json.loads(typed("move", target, target, "--dry-run", "--json").stdout)["problems"]
    assert problems == ["the target is not empty"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sqlite:///none.db", "sqlite:///b.db"), 5, "There is no database"),
        (("memory://", "sqlite:///b.db"), 2, "lives and dies"),
        (("sqlite://", "sqlite:///b.db"), 5, "No file in"),
        (("mysql://me:pass@db/shop", "sqlite:///b.db"), 5, "mysql://me:***@db/shop"),
    ],
)
def test_a_store_that_cannot_be_moved_is_named(
    typed: Type, words: tuple[str, str], code: int, said: str
) -> None:
    refused = typed("move", *words)
    assert (refused.exit_code, said in refused.output) == (code, True)


def test_one_store_is_not_enough_but_to_take_a_move_back(typed: Type, filled: str) -> None:
    refused = typed("move", filled)
    assert refused.exit_code == 2
    assert "Name the store to move into" in refused.output
    nothing = typed("move", "--undo", filled)
    assert nothing.exit_code == 2
    assert "nothing to take back" in nothing.output


def test_a_move_into_the_store_itself_is_refused(typed: Type, filled: str) -> None:
    refused = typed("move", filled, filled)
    assert refused.exit_code == 2
    assert "not empty" in refused.output
    assert typed("runs", "cancel", GREET).exit_code == 0


def test_an_unfinished_move_is_taken_back(typed: Type, filled: str, target: str) -> None:
    half_way(filled, target)
    assert typed("runs", "cancel", GREET).exit_code == 5
    taken = typed("move", "--undo", filled, target, "--json")
    assert json.loads(taken.stdout)["emptied"] == target
    assert typed("runs", "cancel", GREET).exit_code == 0
    assert json.loads(typed("runs", "list", "--store", target, "--json").stdout) == []


def test_a_target_that_is_gone_need_not_be_named(typed: Type, filled: str, target: str) -> None:
    half_way(filled, target)
    told = typed("move", "--undo", filled)
    assert "takes writes again" in told.stdout
    assert "name it too, or drop it" in told.stdout
    assert typed("runs", "cancel", GREET).exit_code == 0
    opened = typed("runs", "list", "--store", target)
    assert opened.exit_code == 5
    assert "is being filled from" in opened.output


def half_way(source: str, target: str) -> None:
    """Move, as somebody who is stopped before all has arrived."""
    from tests.moving.places import move

    def stop(sight: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(move(source, target, tell=stop))


def test_a_password_is_kept_nowhere(typed: Type, filled: str, postgres_url: str) -> None:
    url = postgres_url.replace("postgres@", "postgres:s3cret@")
    told = typed("move", filled, url, "--json")
    assert (told.exit_code, "s3cret" in told.output) == (0, False)
    file = Path(filled.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(file)) as connection:
        [place] = connection.execute("SELECT place FROM moves").fetchone()
    assert place == json.loads(told.stdout)["target"]
    assert "s3cret" not in place
    with pytest.raises(hf.StoreMoved) as moved:
        sync_start(filled)
    assert "s3cret" not in str(moved.value)


def sync_start(url: str) -> None:
    async def start() -> None:
        async with sample.app.open(url):
            pass

    asyncio.run(start())


def test_large_payloads_go_along_or_the_move_is_refused(
    typed: Type, url: str, target: str, tmp_path: Path, postgres_url: str
) -> None:
    name = "x" * 300_000

    async def start() -> None:
        async with sample.app.open(url, worker=False) as client:
            await client.start(sample.app.workflows["greet"].bind(name), id=GREET)

    asyncio.run(start())
    refused = typed("move", url, postgres_url)
    assert refused.exit_code == 2
    assert "has large payloads in" in refused.stderr
    assert "--blobs s3://bucket/prefix" in refused.stderr
    folder = tmp_path / "elsewhere"
    for place, more in ((target, ()), (postgres_url, ("--blobs", f"file://{folder}"))):
        source = url if place == target else target
        assert typed("move", source, place, *more).exit_code == 0
    assert len(list(folder.rglob("*-*"))) == 1
