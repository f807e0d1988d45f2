"""Bodies for the lint: a line that must be found ends in the rule's name, others must not be."""

import asyncio
import contextlib
import datetime as dt
import os
import random
import subprocess
import tempfile
import threading
import time
import uuid
from asyncio import to_thread
from contextlib import suppress
from datetime import datetime
from os import environ
from pathlib import Path
from random import choice
from typing import Any

import holdfast as hf

app = hf.App("bodies")
SEEN: list[str] = []
CACHE: dict[str, int] = {}
LOCK = threading.Lock()
DICE = random.Random(7)
HOME = Path("/srv")
total = 0


@app.step
async def charge(n: int) -> int:
    SEEN.append(f"a step may do anything at {time.time()} with {random.random()}")
    return n


@app.step
def ship(n: int) -> int:
    time.sleep(0)
    return n


def helper() -> float:
    return deeper()


def deeper() -> float:
    return time.monotonic()  # clock


async def async_helper() -> str:
    return str(uuid.uuid4())  # uuid


def recursive(n: int) -> int:
    return recursive(n - 1) if n else 0


def never_called() -> float:
    return time.time()


@app.workflow
async def clocks() -> None:
    datetime.now()  # clock
    dt.datetime.now(dt.UTC)  # clock
    dt.date.today()  # clock
    time.perf_counter()  # clock
    time.sleep(1)  # sleep
    hf.now()
    dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    dt.timedelta(days=1)
    await asyncio.sleep(1)
    helper()
    recursive(3)
    await async_helper()


@app.workflow
async def chance() -> None:
    import random as dice
    from secrets import token_hex

    random.random()  # random
    choice("ab")  # random
    DICE.random()  # random
    dice.shuffle([1])  # random
    token_hex()  # secrets
    os.urandom(3)  # secrets
    hf.secret("token").reveal()  # reveal
    hf.Secret("plain")  # reveal
    uuid.uuid1()  # uuid
    random.Random(4).random()
    hf.random().choice("ab")
    hf.uuid()
    uuid.UUID(int=5)


@app.workflow
async def shadowed(time: Any, random: Any) -> None:
    uuid = time.time()
    uuid.uuid4(random.choice("ab"))
    for open in time:
        open("x")


@app.workflow
async def world() -> None:
    os.environ["HOME"]  # environ
    environ.get("HOME")  # environ
    os.getenv("HOME")  # environ
    open("x").close()  # file
    Path("x").read_text("utf-8")  # file
    (Path("x") / "y").exists()  # file
    HOME.iterdir()  # file
    tempfile.mkdtemp()  # file
    os.path.exists("x")  # file
    subprocess.run(["true"])  # process
    await asyncio.create_subprocess_exec("true")  # process
    await asyncio.open_connection("x", 1)  # network
    print("hello")  # print
    os.path.join("a", "b")
    Path("x").with_suffix(".y")


@app.workflow
async def threads() -> None:
    threading.Thread(target=helper)  # threads
    await asyncio.to_thread(len, "x")  # threads
    await to_thread(len, "x")  # threads
    await asyncio.get_running_loop().run_in_executor(None, len, "x")  # threads
    LOCK.acquire()  # threads
    asyncio.Lock()
    for one in asyncio.as_completed([charge(1)]):  # as_completed
        await one
    for two in hf.as_completed([charge(1)]):
        await two


@app.workflow
async def module_data() -> None:
    global total  # globals
    total += 1
    SEEN.append("x")  # globals
    CACHE["x"] = 1  # globals
    CACHE.setdefault("x", 1)  # globals
    own: list[str] = []
    own.append(SEEN[0])
    CACHE.get("x")


@app.workflow
async def sets(names: list[str]) -> None:
    for _ in {"a", "b"}:  # sets
        await charge(1)
    for _ in set(names):  # sets
        await charge(1)
    unique = {name.lower() for name in names}
    for _ in unique:  # sets
        await charge(1)
    [name for name in set(names)]  # sets
    list(set(names))  # sets
    for _ in {1, 2, 3}:
        await charge(1)
    for _ in sorted(set(names)):
        await charge(1)
    sorted(name for name in set(names))
    {name for name in set(names)}
    len(unique)
    tasks = {asyncio.create_task(charge(n)) for n in (1, 2)}
    for task in tasks:
        task.cancel()


@app.workflow
async def forgets() -> None:
    charge(1)  # unawaited
    ship(1)  # unawaited
    charge.options(timeout=5)(1)  # unawaited
    asyncio.sleep(1)  # unawaited
    hf.sleep(1)  # unawaited
    async_helper()  # unawaited
    async with hf.saga() as saga:
        saga.do(charge(1), undo=lambda n: ship(n or 0))  # unawaited
        await saga.do(charge(1), undo=lambda n: ship(n or 0))
    asyncio.create_task(charge(1))
    later = charge(1)
    await later
    await asyncio.gather(charge(1), ship(2))


@app.workflow
async def swallows() -> str:
    try:
        await charge(1)
    except BaseException:  # swallowed
        pass
    try:
        await charge(1)
    except:  # swallowed
        ...
    with suppress(asyncio.CancelledError):  # swallowed
        await charge(1)
    with contextlib.suppress(Exception):
        await charge(1)
    try:
        helper()
    except BaseException:
        pass
    task = asyncio.create_task(charge(1))
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    try:
        await charge(1)
    except asyncio.CancelledError:
        await ship(1)
        raise
    try:
        return str(await charge(1))
    except asyncio.CancelledError:
        return "cancelled"


@app.workflow
async def allows() -> None:
    random.random()  # holdfast: allow(random)
    print(time.time())  # holdfast: allow(print, clock)
    random.choice(  # random
        ["a"],  # holdfast: allow(clock)
    )
    random.choice(
        ["a"],  # holdfast: allow(random)
    )


# --- nodes of a graph: errors that they hide


drawn = hf.App("drawn")
graph = drawn.graph("drawn")


@graph.node
async def hides(state: hf.State) -> hf.State:
    try:
        state = state.set("n", 1 // state["n"])
    except Exception:  # hidden
        hf.log.warning("no n")
        return state
    for _ in range(2):
        try:
            state["m"]
        except (KeyError, Exception):  # hidden
            continue
        except:  # hidden
            pass
    with suppress(Exception):  # hidden
        state["k"]
    return state


@graph.node(body=True)
async def answers(state: hf.State) -> dict[str, object]:
    try:
        await asyncio.sleep(1)
    except Exception as error:
        return {"failed": str(error)}
    try:
        return {"n": 1 // state["n"]}
    except ZeroDivisionError:
        pass
    try:
        state["m"]
    except Exception:
        return {"m": None}
    try:
        state["m"]
    except Exception:
        hf.log.warning("no m")
        raise
    with suppress(KeyError):
        state["k"]
    try:
        state["k"]
    except Exception:  # holdfast: allow(hidden)
        pass
    return {}


@drawn.step
def hides_too(page: int) -> int:
    try:
        return 1 // page
    except Exception:  # hidden
        pass
    return 0


graph.add_map("each", hides_too, over=lambda state: [1], into="all")
