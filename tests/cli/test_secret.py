"""`holdfast runs secret`: from stdin or the environment, encrypted, and never shown."""

import asyncio

import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.entry import root
from tests.cli.conftest import Type
from tests.engine.places import status_of

TOKEN = "hunter22-hunter22"
KEYS = f"k1:{hf.KeyRing.new_key()}"
app = hf.App("shop")


@app.step(secrets=["token"])
async def charge() -> str:
    return hf.secret("token").reveal()[::-1]


@app.workflow
async def order() -> str:
    return await charge()


@pytest.fixture
def run(url: str) -> str:
    """A run that waits for a secret."""

    async def fill() -> None:
        async with app.open(url) as client:
            run = await client.start(order.bind(), id="r")
            await status_of(run, "waiting")

    asyncio.run(fill())
    return "r"


def result(url: str) -> str:
    async def read() -> str:
        async with app.open(url) as client:
            async with asyncio.timeout(30):
                return await client.get("r", order).result()

    return asyncio.run(read())


def test_why_says_which_secret_is_missing(typed: Type, run: str) -> None:
    told = typed("runs", "why", run).stdout
    assert "secret token is not here" in told
    assert "next\tholdfast runs secret r token" in told


def test_a_secret_is_read_from_stdin(url: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", url)
    monkeypatch.setenv("HOLDFAST_KEYS", KEYS)
    done = CliRunner().invoke(root, ["runs", "secret", "r", "token"], input=f"{TOKEN}\n")
    assert (done.exit_code, done.stdout) == (0, "secret token is given to run r\n")
    assert result(url) == TOKEN[::-1]


def test_a_secret_is_read_from_the_environment(
    url: str, typed: Type, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", KEYS)
    monkeypatch.setenv("TOKEN", TOKEN)
    done = typed("runs", "secret", run, "token", "--from-env", "TOKEN", "--json")
    assert done.stdout == '{"id": "r", "secret": "token"}\n'
    assert result(url) == TOKEN[::-1]


def test_nothing_is_given_without_a_value_or_without_keys(
    typed: Type, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_KEYS", raising=False)
    empty = typed("runs", "secret", run, "token", "--from-env", "NOT_THERE")
    assert empty.exit_code == 2
    assert "The variable NOT_THERE holds no secret" in empty.stderr
    monkeypatch.setenv("TOKEN", TOKEN)
    refused = typed("runs", "secret", run, "token", "--from-env", "TOKEN")
    assert refused.exit_code == 2
    assert "HOLDFAST_KEYS" in refused.stderr
    assert TOKEN not in refused.stderr
