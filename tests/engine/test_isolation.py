"""Steps in processes of their own: killable, and nobody dies with them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast as hf
from tests.engine.places import PATIENCE, Place, kinds, until, within

app = hf.App("isolation")
ONCE = hf.Retry(max_attempts=1)


class Refused(Exception):
    """An error of the user's own, with a field."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@app.step(isolate="process")
def squares(n: int) -> list[int]:
    print(f"squares of {n}")
    hf.log.info("in process %d", os.getpid())
    return [os.getpid(), n * n]


@app.step(isolate="process", retry=hf.Retry(max_attempts=2, initial=0.01))
def dies(how: str) -> str:
    if hf.attempt() > 1:
        return hf.idempotency_key()
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@app.step(isolate="process", timeout=3, retry=ONCE)
def stubborn(file: str) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    Path(file).write_text(f"{os.getpid()} {child.pid}")
    while True:
        time.time()


@app.step(isolate="process", retry=ONCE, raises=[Refused])
async def refuses(code: int) -> None:
    await asyncio.sleep(0)
    raise Refused(code)


@app.step(isolate="process")
async def waits(file: str) -> None:
    try:
        Path(file).write_text("begun")
        await asyncio.sleep(1_000)
    except asyncio.CancelledError:
        Path(file).write_text("cleaned up")
        raise


@app.step(isolate="process", queue="cpu")
def counted() -> int:
    found = hf.last_heartbeat(int) or 0
    hf.heartbeat(found + 1)
    if not found:
        os._exit(1)
    return found


@app.workflow
async def twice() -> list[list[int]]:
    return [await squares(2), await squares(3)]


@app.workflow
async def dying(how: str) -> str:
    return await dies(how)


@app.workflow
async def stuck(file: str) -> str:
    try:
        await stubborn(file)
    except hf.StepTimedOut as error:
        return error.message
    return ""


@app.workflow
async def refused() -> int:
    try:
        await refuses(7)
    except Refused as error:
        return error.code
    return 0


@app.workflow
async def waiting(file: str) -> None:
    await waits(file)


@app.workflow
async def as_job() -> int:
    return await counted()


def is_gone(pid: int) -> bool:
    """Tell whether a process is dead, or waits for its parent to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return True
    return state in "ZX"


async def test_it_runs_in_another_process_which_is_used_again(place: Place) -> None:
    async with place.open(app) as client:
        run = await client.start(twice.bind())
        (first, four), (second, nine) = await within(run.result(), 30)
        assert (four, nine) == (4, 9)
        assert first == second != os.getpid()
        said = [(line.logger, line.message) async for line in run.logs()]
        assert ("stdout", "squares of 2") in said
        assert ("holdfast.log", f"in process {first}") in said
    await until(lambda: is_gone(first))


@pytest.mark.parametrize(("how", "told"), [("exit", "exit code 3"), ("kill", "signal SIGKILL")])
async def test_a_process_that_dies_is_a_failed_attempt(place: Place, how: str, told: str) -> None:
    async with place.open(app) as client:
        run = await client.start(dying.bind(how), id="r")
        assert await within(run.result(), 30) == "default/r/1/dies#1"
        events = (await run.history()).events
        [retrying] = [event for event in events if event.kind == "step.retrying"]
        assert told in (retrying.payload or b"").decode()


async def test_what_takes_too_long_is_killed_with_all_it_started(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    async with place.open(app) as client:
        run = await client.start(stuck.bind(str(file)))
        assert await within(run.result(), 30) == "took longer than 3 s"
        pids = [int(pid) for pid in file.read_text().split()]
        await until(lambda: all(map(is_gone, pids)))


async def test_declared_errors_cross_from_another_process(place: Place) -> None:
    async with place.open(app) as client:
        assert await within((await client.start(refused.bind())).result(), 30) == 7


async def test_a_cancel_reaches_the_process(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "said"
    async with place.open(app) as client:
        run = await client.start(waiting.bind(str(file)))
        await until(file.exists)
        await run.cancel()
        await until(lambda: file.read_text() == "cleaned up")


async def test_a_job_may_run_in_a_process_and_goes_on_from_its_heartbeat(place: Place) -> None:
    async with place.open(app) as client:
        run = await client.start(as_job.bind())
        assert await within(run.result(), 30) == 1
        assert "step.retrying" in await kinds(run)


@pytest.mark.timeout(60)
def test_its_processes_die_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    program = (
        "import asyncio; from tests.engine.test_isolation import *\n"
        "async def main():\n"
        "    async with app.open('memory://') as client:\n"
        f"        await (await client.start(stuck.bind({str(file)!r}))).result()\n"
        "asyncio.run(main())\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 3 * PATIENCE
    while not (file.exists() and len(file.read_text().split()) == 2):
        assert time.monotonic() < deadline
    worker.kill()
    worker.wait()
    process = int(file.read_text().split()[0])
    while not is_gone(process):
        assert time.monotonic() < deadline


def test_what_no_process_could_import_is_refused() -> None:
    with pytest.raises(hf.BadDefinition, match="defined inside a function"):

        @app.step(isolate="process")
        def inner() -> None: ...

    with pytest.raises(hf.BadDefinition, match="isolate='thread'"):

        @app.step(isolate="thread")  # type: ignore[call-overload]
        def other() -> None: ...
