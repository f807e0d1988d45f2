"""While a body runs, files, sockets, processes and threads are refused; nothing else is."""

import asyncio
import datetime
import gc
import linecache
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
import urllib.request
import zoneinfo
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pydantic
import pytest

from holdfast.errors import GuardViolation
from holdfast.hosts.worker import guard
from holdfast.machine.machine import Machine
from holdfast.machine.values import Signature
from tests.machine.driver import Driver, Step, work

HERE = Path(__file__)


@pytest.fixture(autouse=True)
def installed() -> None:
    guard.install()


def started_thread() -> None:
    threading.Thread(target=print).start()


def submitted() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(print)


REFUSED: dict[str, Callable[[], Any]] = {
    "open(": lambda: HERE.read_text("utf-8"),
    "open('": lambda: open("prices.csv"),  # noqa: SIM115
    "os.listdir('/')": lambda: os.listdir("/"),
    "os.remove(": lambda: Path("gone").unlink(),
    "os.mkdir(": lambda: Path("made").mkdir(),
    "tempfile.mkstemp(": lambda: tempfile.mkstemp(),
    "sqlite3.connect(": lambda: sqlite3.connect("x.db"),
    "socket.socket()": lambda: socket.socket(),
    "socket.getaddrinfo()": lambda: socket.getaddrinfo("localhost", 80),
    "urllib.Request()": lambda: urllib.request.urlopen("http://127.0.0.1:9"),
    "subprocess.Popen()": lambda: subprocess.run(["true"]),
    "os.system()": lambda: os.system("true"),
    "os.fork()": lambda: os.fork(),
    "threading.Thread.start()": started_thread,
    "threading.Thread.start() ": submitted,
}


@pytest.mark.parametrize("call", REFUSED)
def test_a_violation_is_named_and_sticks(call: str) -> None:
    async def body() -> str:
        with suppress(BaseException):
            REFUSED[call]()
        return "as if nothing had happened"

    with pytest.raises(GuardViolation) as refused:
        Driver(body)
    error = refused.value
    assert error.call.startswith(call.strip())
    assert "test_guard.py:" in error.source
    assert "Put it in a step" in str(error)
    assert "[HF504]" in str(error)


def test_the_innermost_line_of_the_users_code_is_named() -> None:
    def helper() -> None:
        Path("x").read_text("utf-8")

    async def body() -> None:
        helper()

    with pytest.raises(GuardViolation) as refused:
        Driver(body)
    assert refused.value.source.endswith("in helper")


def test_a_secret_in_a_command_is_not_told() -> None:
    async def body() -> None:
        os.system("login --password hunter2")

    with pytest.raises(GuardViolation) as refused:
        Driver(body)
    assert "hunter2" not in str(refused.value)


def test_a_violation_in_a_task_or_after_a_step_is_found_live_and_in_replay() -> None:
    async def branch() -> None:
        await work()
        with suppress(Exception):
            os.listdir("/")

    async def body() -> None:
        await asyncio.gather(branch(), return_exceptions=True)

    driver = Driver(body)
    assert driver.waits == ["branch[1]/work#1"]
    with pytest.raises(GuardViolation):
        driver.complete("branch[1]/work#1")
    twin = Machine(body, Signature.of(body), ns="test", run="run-1")
    with pytest.raises(GuardViolation):
        twin.feed_all(driver.history)
    twin.close()
    driver.machine.close()


def test_a_mended_body_passes() -> None:
    broken = True

    async def body() -> int:
        await work()
        if broken:
            os.listdir("/")
        return 1

    driver = Driver(body)
    with pytest.raises(GuardViolation):
        driver.complete("work#1")
    driver.machine.close()
    broken = False
    twin = Machine(body, Signature.of(body), ns="test", run="run-1")
    twin.feed_all(driver.history)
    assert twin.ended is not None
    twin.close()


class Opens(pydantic.BaseModel):
    """A value whose validator reads a file: it does so on the host's side as well."""

    name: str

    @pydantic.field_validator("name")
    @classmethod
    def read(cls, name: str) -> str:
        return str(len(HERE.read_bytes()) > 0 and name)


@Step
def opens() -> Opens:
    return Opens(name="x")


class Reader:
    def __del__(self) -> None:
        os.listdir("/")


class Writer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        HERE.read_bytes()


def logs() -> None:
    log = logging.getLogger("guarded")
    handler = Writer()
    log.addHandler(handler)
    log.warning("told")
    log.removeHandler(handler)


def imports() -> None:
    sys.modules.pop("colorsys", None)
    import colorsys  # noqa: F401


def finalises() -> None:
    Reader()
    gc.collect()


def reads_lines() -> None:
    linecache.clearcache()
    assert linecache.getline(__file__, 1)
    try:
        raise ValueError
    except ValueError:
        assert "raise ValueError" in traceback.format_exc()


MAY = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
ALLOWED: dict[str, Callable[[], Any]] = {
    "imports": imports,
    "zone files": lambda: MAY.astimezone(zoneinfo.ZoneInfo.no_cache("Asia/Tokyo")),
    "source lines": reads_lines,
    "log handlers": logs,
    "finalisers": finalises,
    "values": lambda: None,
    "paths without I/O": lambda: Path("/a/b").with_suffix(".txt").name,
}  # fmt: skip


@pytest.mark.parametrize("what", ALLOWED)
def test_what_a_body_does_not_do_by_itself_is_let_through(what: str) -> None:
    async def body() -> int:
        ALLOWED[what]()
        await opens()
        return 1

    driver = Driver(body)
    digest = driver.machine.asks["opens#1"].digest
    driver.add("step.completed", "opens#1", payload=b'{"name":"x"}', digest=digest)
    assert driver.result == 1
    assert driver.machine.warnings == ()


def test_a_body_on_a_loop_inside_an_import_is_guarded_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        textwrap.dedent("""
        import os
        from tests.machine.driver import Driver
        from holdfast.hosts.worker import guard
        guard.install()
        async def body() -> None:
            os.listdir("/")
        Driver(body)
        """)
    )
    root = HERE.parents[2]
    command = [sys.executable, "-c", "import flow"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "GuardViolation: os.listdir('/')" in done.stderr


def test_other_threads_are_left_alone_while_a_body_runs() -> None:
    asked, answered = threading.Event(), threading.Event()

    def read() -> None:
        asked.wait(10)
        HERE.read_bytes()
        answered.set()

    thread = threading.Thread(target=read)
    thread.start()

    async def body() -> bool:
        asked.set()
        return answered.wait(10)

    driver = Driver(body, paranoid=False)
    thread.join()
    assert driver.result is True


async def test_the_host_may_do_io_before_and_after_a_nested_body() -> None:
    async def body() -> int:
        return await work()

    driver = Driver(body)
    HERE.read_bytes()
    driver.complete("work#1", 7)
    HERE.read_bytes()
    assert driver.result == 7


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_a_softer_guard_lets_through(mode: Any) -> None:
    async def body() -> int:
        for _ in range(3):
            HERE.read_bytes()
        return 1

    machine = Machine(body, Signature.of(body), ns="test", run="run-1", guard=mode)
    driver = Driver.__new__(Driver)
    driver.machine, driver.paranoid, driver.history, driver.at = machine, True, [], 0
    driver.given = []
    driver.add("run.started", payload=b"{}")
    assert driver.result == 1
    assert len(machine.warnings) == (1 if mode == "warn" else 0)
    assert all("guard: open(" in text for text in machine.warnings)


def test_clean_up_of_a_closed_body_cannot_touch_the_world() -> None:
    reached: list[str] = []

    async def body() -> None:
        try:
            await work()
        finally:
            reached.append("finally")
            os.listdir("/")
            reached.append("beyond")

    driver = Driver(body, paranoid=False)
    driver.machine.close()
    assert reached == ["finally"]


def test_installing_twice_is_installing_once() -> None:
    start = threading.Thread.start
    guard.install()
    assert threading.Thread.start is start


def test_a_finaliser_at_the_interpreters_end_is_left_alone() -> None:
    code = """
    from holdfast.hosts.worker import guard
    guard.install()
    class Last:
        def __del__(self, open=open, print=print):
            with open(__file__): print("read")
    last = Last()
    """.replace("__file__", repr(str(HERE)))
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("read\n", "")
