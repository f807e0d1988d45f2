"""The sync door: every public method, from plain code."""

import asyncio
import inspect
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

go = hf.Signal("go", str)
app = hf.App("sync-tests")


TOKENS: list[str] = []


@app.step(completes_later=True)
async def convert() -> int:
    TOKENS.append(hf.completion_token())
    hf.complete_later()


@app.workflow
async def converts() -> int:
    return await convert()


@app.step(secrets=["token"])
async def sign_in() -> int:
    return len(hf.secret("token").reveal())


@app.workflow
async def signs_in() -> int:
    return await sign_in()


@app.workflow
async def asks() -> bool:
    return await hf.ask("ok?")


@app.workflow
async def greet(name: str) -> str:
    return f"hello {name}"


@app.step
async def chats() -> None:
    hf.log.info("it talks")


@app.workflow
async def talks() -> None:
    await chats()


@app.workflow
async def waits() -> str:
    return await hf.wait_for(go)


add = hf.Update("add", int, int)
total = hf.Query("total", int)


@app.workflow
async def sums() -> str:
    numbers: list[int] = []

    def put(n: int) -> int:
        numbers.append(n)
        return sum(numbers)

    def check(n: int) -> None:
        if n < 0:
            raise ValueError("too small")

    hf.handle(add, put, validate=check)
    hf.handle(total, lambda: sum(numbers))
    return await hf.wait_for(go)


@app.workflow
async def fails() -> None:
    raise ValueError("no luck")


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'sync.db'}"


@pytest.fixture
def client(url: str) -> Iterator[hf.SyncClient]:
    with app.open_sync(url) as opened:
        yield opened
    assert "holdfast-sync" not in [thread.name for thread in threading.enumerate()]


# --- every method: one use of each, by name


def use_start(client: hf.SyncClient) -> None:
    run = client.start(greet.bind("ada"), id="a", tags=["vip"], attributes={"n": 1})
    assert isinstance(run, hf.SyncRunHandle)
    assert (run.id, run.result()) == ("a", "hello ada")
    with pytest.raises(hf.RunConflict):
        client.start(greet.bind("bob"), id="a")


def use_get(client: hf.SyncClient) -> None:
    client.start(greet.bind("ada"), id="a")
    assert client.get("a").result() == client.get("a", greet).result() == "hello ada"
    with pytest.raises(hf.RunNotFound):
        client.get("nobody").describe()


def use_list(client: hf.SyncClient) -> None:
    for n in range(3):
        client.start(greet.bind("ada"), id=f"r{n}")
    page = client.list(workflow="greet", limit=2)
    rest = client.list(workflow="greet", limit=2, after=page.next)
    assert [run.id for run in (*page.runs, *rest.runs)] == ["r2", "r1", "r0"]


def use_prune_witness(client: hf.SyncClient) -> None:
    assert client.prune_witness(hf.SqliteWitness(sqlite3_in_memory), older_than=0) == 0


def sqlite3_in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def use_prune(client: hf.SyncClient) -> None:
    client.start(greet.bind("ada"), id="a").result()
    client.start(waits.bind(), id="b")
    assert client.prune(older_than=0) == 1
    assert [run.id for run in client.list().runs] == ["b"]


def use_client_labels(client: hf.SyncClient) -> None:
    client.start(greet.bind("ada"), id="a", tags=["vip"])
    assert client.labels("a", "b") == {"a": hf.Labels(("vip",))}


def use_result(client: hf.SyncClient) -> None:
    with pytest.raises(hf.RunFailed, match="no luck"):
        client.start(fails.bind()).result()


def use_describe(client: hf.SyncClient) -> None:
    assert client.start(waits.bind(), id="w").describe().workflow == "waits"


def use_labels(client: hf.SyncClient) -> None:
    assert client.start(waits.bind(), tags=["vip"]).labels() == hf.Labels(("vip",))


def use_history(client: hf.SyncClient) -> None:
    run = client.start(greet.bind("ada"))
    run.result()
    assert [event.kind for event in run.history().events] == ["run.started", "run.completed"]


def use_progress(client: hf.SyncClient) -> None:
    assert client.start(waits.bind()).progress() == ()


def use_logs(client: hf.SyncClient) -> None:
    run = client.start(talks.bind())
    assert [line.message for line in run.logs(follow=True)] == ["it talks"]
    assert [line.message for line in run.logs(step="chats")] == ["it talks"]


def use_events(client: hf.SyncClient) -> None:
    run = client.start(waits.bind())
    kinds: list[str] = []
    for event in run.events():
        kinds.append(event.kind)
        if event.kind == "run.started":
            run.signal(go, "now")
    assert kinds == ["run.started", "signal.received", "run.completed"]
    for event in run.events(after=1):
        assert event.seq == 2
        break  # leaving early is fine


def use_signal(client: hf.SyncClient) -> None:
    run = client.start(waits.bind())
    assert run.signal(go, "now", id="s1")
    assert run.result() == "now"


def use_cancel(client: hf.SyncClient) -> None:
    run = client.start(waits.bind())
    assert run.cancel("enough")
    with pytest.raises(hf.RunCancelled):
        run.result()


def use_terminate(client: hf.SyncClient) -> None:
    run = client.start(waits.bind())
    assert run.terminate("enough") is None  # type: ignore[func-returns-value]
    with pytest.raises(hf.RunTerminated):
        run.result()


def until(run: hf.SyncRunHandle[Any], status: str) -> None:
    for _ in range(2_000):
        if run.describe().status == status:
            return
        threading.Event().wait(0.005)
    raise TimeoutError(f"{run} is {run.describe().status}, not {status}")


def use_pause(client: hf.SyncClient) -> None:
    run = client.start(waits.bind())
    run.pause("lunch")
    until(run, "paused")


def use_resume(client: hf.SyncClient) -> None:
    use_pause(client)
    run = client.get(client.list().runs[0].id)
    run.resume()
    run.signal(go, "now")
    assert run.result() == "now"


def use_retry(client: hf.SyncClient) -> None:
    run = client.start(fails.bind())
    until(run, "failed")
    run.retry("mended")
    assert "run.reopened" in [event.kind for event in run.events()]


def use_rerun(client: hf.SyncClient) -> None:
    run = client.start(talks.bind())
    run.result()
    assert run.rerun("chats#1") == ["chats#1"]
    run.result()
    assert run.describe().generation == 2


def use_query(client: hf.SyncClient) -> None:
    run = client.start(sums.bind())
    assert run.query(total) == 0
    with pytest.raises(hf.UnknownQuery):
        run.query("nothing")


def use_update(client: hf.SyncClient) -> None:
    run = client.start(sums.bind())
    assert run.update(add, 3, id="u1") == run.update(add, 3, id="u1") == 3
    accepted = run.update(add, 4, id="u2", wait="accepted")
    assert isinstance(accepted, hf.SyncUpdateHandle)
    assert (accepted.id, accepted.run, accepted.result()) == ("u2", run.id, 7)
    assert "u2" in repr(accepted)
    with pytest.raises(hf.UpdateRejected, match="too small"):
        run.update(add, -1)


def use_signal_with_start(client: hf.SyncClient) -> None:
    run = client.signal_with_start(waits.bind(), go.bind("now", id="s1"), id="w", tags=["vip"])
    assert isinstance(run, hf.SyncRunHandle)
    assert (run.result(), run.labels().tags) == ("now", ("vip",))


def use_update_with_start(client: hf.SyncClient) -> None:
    assert client.update_with_start(sums.bind(), add.bind(3), id="s") == 3
    accepted = client.update_with_start(sums.bind(), add.bind(4), id="s", wait="accepted")
    assert accepted.result() == 7


def asked(client: hf.SyncClient) -> hf.OpenQuestion:
    for _ in range(2_000):
        if found := client.questions().questions:
            return found[0]
        threading.Event().wait(0.005)
    raise TimeoutError("nobody is asked")


def use_questions(client: hf.SyncClient) -> None:
    client.start(asks.bind(), id="asks")
    assert asked(client).question == "ok?"


def use_answer(client: hf.SyncClient) -> None:
    run = client.start(asks.bind(), id="answered")
    assert run.answer(asked(client).key, True, by="ada")
    assert run.result() is True


def use_supply_secret(client: hf.SyncClient) -> None:
    run = client.start(signs_in.bind(), id="signs-in")
    run.supply_secret("token", hf.Secret("hunter22"))
    assert run.result() == 8


def use_complete(client: hf.SyncClient) -> None:
    run = client.start(converts.bind(), id="completed")
    until(run, "waiting")
    assert client.complete(TOKENS[-1], 7)
    assert run.result() == 7


def use_fail(client: hf.SyncClient) -> None:
    run = client.start(converts.bind(), id="broken")
    until(run, "waiting")
    assert client.fail(TOKENS[-1], "Broken", "no", retry=False)
    with pytest.raises(hf.RunFailed, match="Broken: no"):
        run.result()


def use_fork(client: hf.SyncClient) -> None:
    run = client.start(greet.bind("ada"))
    run.result()
    assert run.fork(1, id="other").result() == run.result()
    assert run.fork(input=greet.bind("bob")).result() == "hello bob"


def use_diff(client: hf.SyncClient) -> None:
    for name in ("ada", "bob"):
        client.start(greet.bind(name), id=name).result()
    compared = client.diff("ada", "bob")
    assert isinstance(compared, hf.Diff)
    assert [item.key for item in compared.items] == ["input", "end"]


@app.entity
@dataclass
class Sum:
    key: str
    total: int = 0

    @hf.update
    async def add(self, n: int) -> int:
        self.total += n
        return self.total


def use_entity(client: hf.SyncClient) -> None:
    kept = client.entity(Sum, "a")
    assert isinstance(kept, hf.SyncEntityHandle)
    assert [kept.update(Sum.add, n) for n in (1, 2)] == [1, 3]


counting = app.graph("counting", checkpoint=hf.CheckpointConfig(interval=1, preserve=True))


@counting.node
async def count(state: hf.State) -> hf.State:
    return state.set("n", state["n"] + 1)


@counting.node(body=True)
async def doubled(state: hf.State) -> hf.State:
    return state.set("n", state["n"] * 2)


counting.add_edge(hf.START, count).add_edge(count, doubled).add_edge(doubled, hf.END)


def counted(client: hf.SyncClient) -> hf.SyncCheckpoints:
    client.start(counting.bind(hf.State({"n": 0})), id="counted").result()
    return hf.SyncCheckpoints(client, "counted")


def use_checkpoints(client: hf.SyncClient) -> None:
    assert [each.key for each in counted(client).list()] == ["count:1", "doubled:2"]
    with pytest.raises(hf.RunNotFound):
        hf.SyncCheckpoints(client, "nobody").list()


def use_state(client: hf.SyncClient) -> None:
    points = counted(client)
    assert (dict(points.state()), dict(points.state("count"))) == ({"n": 2}, {"n": 1})
    with pytest.raises(hf.UnknownKey):
        points.state("counts")


def use_state_diff(client: hf.SyncClient) -> None:
    assert counted(client).diff("count", "doubled").changed == {"n": (1, 2)}


def use_state_fork(client: hf.SyncClient) -> None:
    points = counted(client)
    fork = points.fork("count", {"n": 7}, id="other", reason="what if")
    assert isinstance(fork, hf.SyncRunHandle)
    assert (fork.id, dict(fork.result())) == ("other", {"n": 14})
    assert dict(points.fork("doubled", hf.State({"n": 9})).result()) == {"n": 9}


USES: dict[tuple[type, str], Callable[[hf.SyncClient], None]] = {
    (hf.Client, "start"): use_start,
    (hf.Client, "signal_with_start"): use_signal_with_start,
    (hf.Client, "update_with_start"): use_update_with_start,
    (hf.Client, "get"): use_get,
    (hf.Client, "list"): use_list,
    (hf.Client, "prune"): use_prune,
    (hf.Client, "prune_witness"): use_prune_witness,
    (hf.Client, "labels"): use_client_labels,
    (hf.Client, "diff"): use_diff,
    (hf.Client, "entity"): use_entity,
    (hf.Client, "questions"): use_questions,
    (hf.Client, "complete"): use_complete,
    (hf.Client, "fail"): use_fail,
    (hf.RunHandle, "answer"): use_answer,
    (hf.RunHandle, "supply_secret"): use_supply_secret,
    (hf.RunHandle, "result"): use_result,
    (hf.RunHandle, "describe"): use_describe,
    (hf.RunHandle, "labels"): use_labels,
    (hf.RunHandle, "history"): use_history,
    (hf.RunHandle, "progress"): use_progress,
    (hf.RunHandle, "logs"): use_logs,
    (hf.RunHandle, "events"): use_events,
    (hf.RunHandle, "signal"): use_signal,
    (hf.RunHandle, "query"): use_query,
    (hf.RunHandle, "update"): use_update,
    (hf.RunHandle, "cancel"): use_cancel,
    (hf.RunHandle, "terminate"): use_terminate,
    (hf.RunHandle, "pause"): use_pause,
    (hf.RunHandle, "resume"): use_resume,
    (hf.RunHandle, "retry"): use_retry,
    (hf.RunHandle, "rerun"): use_rerun,
    (hf.RunHandle, "fork"): use_fork,
    (hf.Checkpoints, "list"): use_checkpoints,
    (hf.Checkpoints, "state"): use_state,
    (hf.Checkpoints, "diff"): use_state_diff,
    (hf.Checkpoints, "fork"): use_state_fork,
}
TWINS: dict[type, type] = {
    hf.Client: hf.SyncClient,
    hf.RunHandle: hf.SyncRunHandle,
    hf.Checkpoints: hf.SyncCheckpoints,
}


def methods(kind: type) -> set[tuple[type, str]]:
    return {(kind, name) for name, _ in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")}  # fmt: skip


def test_every_public_method_has_a_use_here() -> None:
    assert set().union(*map(methods, TWINS)) == set(USES)


@pytest.mark.parametrize("method", USES, ids=lambda pair: f"{pair[0].__name__}.{pair[1]}")
def test_a_method_works_from_plain_code(client: hf.SyncClient, method: tuple[type, str]) -> None:
    USES[method](client)


@pytest.mark.parametrize("method", USES, ids=lambda pair: f"{pair[0].__name__}.{pair[1]}")
def test_a_method_has_the_same_parameters_and_docstring(method: tuple[type, str]) -> None:
    kind, name = method
    ours, theirs = getattr(TWINS[kind], name), getattr(kind, name)
    mine, other = inspect.signature(ours), inspect.signature(theirs)
    assert mine.parameters == other.parameters
    assert not inspect.iscoroutinefunction(ours)
    assert ours.__doc__ == theirs.__doc__
    returns = re.sub(r"\b(Run|Entity)Handle\b", r"Sync\1Handle", str(other.return_annotation))
    assert mine.return_annotation == returns.replace("AsyncIterator", "Iterator")


# --- life and death


async def test_inside_a_loop_it_is_refused(url: str) -> None:
    with pytest.raises(hf.SyncInLoop, match="open_sync was called inside a running event loop"):
        app.open_sync(url)
    client = await asyncio.to_thread(app.open_sync, url)
    with pytest.raises(hf.SyncInLoop, match="start was called"):
        client.start(greet.bind("ada"))
    run = await asyncio.to_thread(client.start, greet.bind("ada"))
    assert await asyncio.to_thread(run.result) == "hello ada"
    await asyncio.to_thread(client.close)


async def test_a_notebook_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", asyncio)
    with app.open_sync("memory://") as client:
        assert client.start(greet.bind("ada")).result() == "hello ada"


def test_after_close_it_says_so(url: str) -> None:
    client = app.open_sync(url)
    run = client.start(waits.bind())
    client.close()
    client.close()
    with pytest.raises(hf.StoreUnavailable, match="This client is closed"):
        run.describe()
    with pytest.raises(hf.StoreUnavailable, match="This client is closed"):
        next(run.events())


def test_closing_frees_whoever_waits(url: str) -> None:
    client = app.open_sync(url)
    run = client.start(waits.bind())
    heard: list[object] = []
    is_waiting = threading.Event()

    def wait() -> None:
        try:
            for event in run.events():
                is_waiting.set()
                heard.append(event.kind)
        except hf.StoreUnavailable as error:
            heard.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    is_waiting.wait(10)
    client.close()
    thread.join(10)
    assert not thread.is_alive()
    assert heard[0] == "run.started"
    assert "This client is closed" in str(heard[-1])


def test_a_store_that_cannot_be_opened_is_told_and_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(hf.StoreError, match="does not exist"):
        app.open_sync(f"sqlite:///{tmp_path / 'no' / 'such.db'}")
    assert "holdfast-sync" not in [thread.name for thread in threading.enumerate()]


def test_many_threads_share_one_client(client: hf.SyncClient) -> None:
    results: list[str] = []

    def work(n: int) -> None:
        results.append(client.start(greet.bind(str(n))).result())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == sorted(f"hello {n}" for n in range(8))


def test_a_pure_client_works_beside_a_worker(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'two.db'}"
    with app.open_sync(url), app.open_sync(url, worker=False) as client:
        assert client.app is app
        assert client.start(greet.bind("ada")).result() == "hello ada"


SCRIPT = """
import _thread
import threading
import holdfast as hf

app = hf.App("script")
go = hf.Signal("go", str)

@app.workflow
async def waits() -> str:
    return await hf.wait_for(go)

client = app.open_sync("sqlite:///script.db")
run = client.start(waits.bind(), id="w")
try:
    print("ready", flush=True)
    if "{mode}" == "unheard":
        threading.Timer(0.1, _thread.interrupt_main).start()
    if "{mode}" != "leave":
        run.result()
except KeyboardInterrupt:
    print("interrupted", run.describe().workflow, flush=True)
"""


def script(folder: Path, mode: str) -> subprocess.Popen[str]:
    file = folder / "script.py"
    file.write_text(SCRIPT.replace("{mode}", mode))
    command = [sys.executable, "-W", "error", file.name]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_an_interrupt_ends_the_wait_and_nothing_else(tmp_path: Path) -> None:
    process = script(tmp_path, "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    told, errors = process.communicate(timeout=30)
    assert (process.returncode, told, errors) == (0, "interrupted waits\n", "")


def test_an_interrupt_that_wakes_nobody_is_heard_all_the_same(tmp_path: Path) -> None:
    """As one that comes right before the thread goes to sleep; this one is no signal at all."""
    told, errors = script(tmp_path, "unheard").communicate(timeout=30)
    assert (told, errors) == ("ready\ninterrupted waits\n", "")


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    process = script(tmp_path, "leave")
    told, errors = process.communicate(timeout=30)
    assert (process.returncode, told, errors) == (0, "ready\n", "")
    with app.open_sync(f"sqlite:///{tmp_path / 'script.db'}") as client:
        run = client.get("w", waits)
        run.signal(go, "now")
        assert run.result() == "now"
