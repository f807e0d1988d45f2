"""A command that is proposed can be typed as it stands, and means the same run."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli import proposing
from tests.cli import sample
from tests.cli.conftest import SAMPLE, Type

NAMES = ["it's", "a b", "x; touch pwned", "$(touch pwned)", "*", "-dash", "--help", "漢字"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """A store that no variable names, with a run for each name."""
    url = f"sqlite:///{tmp_path / 'my shop.db'}"

    async def fill() -> None:
        async with sample.app.open(url, worker=False) as client:
            for name in NAMES:
                await client.start(sample.waits.bind(), id=name)

    asyncio.run(fill())
    return url


def dashed(name: str) -> tuple[str, ...]:
    return ("--", name) if name.startswith("-") else (name,)


@pytest.mark.parametrize("name", NAMES)
def test_next_commands_mean_the_same_run_on_the_same_store(
    typed: Type, elsewhere: str, name: str
) -> None:
    paused = typed("runs", "pause", "--store", elsewhere, *dashed(name))
    assert paused.stdout == f"{name}\n"
    told = json.loads(typed("runs", "why", "--store", elsewhere, "--json", *dashed(name)).stdout)
    for proposed in told["next"]:
        verb, *words = shlex.split(proposed)[1:]
        if verb == "worker":
            assert words == ["APP", "--store", elsewhere]
            continue
        done = typed(verb, *words)
        assert (done.exit_code, done.stdout) == (0, f"{name}\n")
    assert told["next"]


def test_the_namespace_of_an_app_is_said(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "berlin.py"
    app.write_text(
        "import holdfast as hf\napp = hf.App('shop', namespace='ber lin')\n"
        "@app.workflow\nasync def order() -> None:\n    pass\n"
    )
    monkeypatch.setenv("COLUMNS", "300")
    text = typed("run", "order", "--key", "b1", "--app", str(app), person=True).stdout
    [line] = [line for line in text.splitlines() if "runs watch" in line]
    assert "holdfast runs watch b1 --namespace 'ber lin'" in line


def test_the_next_page_is_of_the_same_runs(typed: Type, elsewhere: str) -> None:
    words = (
        "runs",
        "list",
        "-tag:vip",
        "--status",
        "pending",
        "--workflow",
        "waits",
        "--limit",
        "1",
    )
    seen, proposed = list[str](), [*words, "--since", "1d", "--store", elsewhere]
    while True:
        text = typed(*proposed, person=True).stdout
        seen += [name for name in NAMES if f"  {name}  " in text]
        if " · more: " not in text:
            break
        _, _, after = text.partition(" · more: holdfast ")
        proposed = shlex.split(after.split(" · open: ")[0])
    assert sorted(seen) == sorted(NAMES)


def test_what_the_variables_say_is_not_said_again(typed: Type, full: str) -> None:
    told = typed("runs", "why", "waiting", "--store", full).stdout
    assert "next\tholdfast runs signal waiting go -d JSON\n" in told


def test_a_password_is_not_shown() -> None:
    assert proposing.typed_worker("postgresql://me:s3cret@host/db", app=SAMPLE) == (
        f"holdfast worker {SAMPLE} --store 'postgresql://me:***@host/db'"
    )


def test_errors_name_the_run_for_a_shell() -> None:
    assert "`holdfast runs show 'a b'`" in str(hf.RunFailed(run="a b"))
