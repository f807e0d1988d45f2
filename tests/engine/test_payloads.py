"""Payloads that are encrypted, or too large for a row: as users meet them."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.blobs.memory import MemoryBlobs
from holdfast.compose import open_client, store_of
from holdfast.model import sizes
from holdfast.model.writes import Filter, Import, Page, Prune
from holdfast.ports.inspection import InspectedStore
from holdfast.stores.envelope import BLOB
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sealed import SealedStore
from holdfast.testing import invariants
from tests.engine.places import FAST, Place, event_of, status_of, until, within

OLD, NEW = bytes(range(32)), bytes(32)
RING = hf.KeyRing({"old": OLD, "new": NEW})
OTHER = hf.KeyRing({"other": bytes(32)})
CANARY = "canary-9f31c7"
LONG = CANARY * 60
go = hf.Signal("go", str)


class Sealed:
    """A place whose payloads are sealed; blobs are kept as long as it is."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.blobs = MemoryBlobs(lambda: 1)
        self.inline = 400

    def inner(self) -> InspectedStore:
        url = self._place.url
        found = url if isinstance(url, MemoryStore) else cast("SealedStore", store_of(url)).inner
        return cast("InspectedStore", found)

    @asynccontextmanager
    async def open(
        self, app: hf.App, keys: hf.KeyRing | None = None, **settings: Any
    ) -> AsyncIterator[hf.Client]:
        store = SealedStore(self.inner(), keys=keys, blobs=self.blobs, inline=self.inline)
        chosen = hf.Settings(**{**FAST, **settings})
        async with open_client(app, store, settings=chosen) as client:
            yield client

    async def raw(self, client: hf.Client) -> str:
        """Everything that the store and the blob store hold, as text."""
        dump = await cast("Any", client.engine.store).inner.dump()
        return repr(dump) + repr(self.blobs.kept)


@pytest.fixture
def sealed(place: Place) -> Sealed:
    return Sealed(place)


hears = hf.Update("hears", str, str)


def everything(app: hf.App) -> hf.Workflow[[str], list[str]]:
    """A workflow that says the canary in each way there is."""

    @app.step(retry=hf.Retry(initial=0.01, max_attempts=2))
    async def shout(text: str, times: int) -> str:
        hf.log.warning("about %s", text)
        hf.heartbeat({"at": text})
        if times == 3 and hf.attempt() == 1:
            raise RuntimeError(f"cannot shout {text}")
        return text * times

    @app.workflow
    async def child(text: str) -> str:
        return await shout(text, 100)

    @app.workflow
    async def failing(text: str) -> str:
        raise ValueError(f"no {text}")

    @app.workflow
    async def parent(text: str) -> list[str]:
        async def hear(more: str) -> str:
            return more + await shout(more, 1)

        hf.handle(hears, hear)
        told = [await shout(text, 1), await shout(text, 3), await child(text)]
        told.append(await hf.wait_for(go))
        told.append(await hf.ask(f"Is it {text}?", str, details={"text": text}))
        await hf.wait_for(go)
        await hf.handlers_finished()
        try:
            await failing(text)
        except hf.ChildFailed as error:
            told.append(str(error))
        return told

    return parent


@pytest.mark.parametrize("key", ["plain", "encrypted"])
async def test_every_kind_of_payload_comes_back(sealed: Sealed, app: hf.App, key: str) -> None:
    parent = everything(app)
    async with sealed.open(app, RING if key == "encrypted" else None) as client:
        run = await client.start(parent.bind(CANARY), id="r")
        await run.signal(go, LONG)
        await until(lambda: _is_asked(client))
        [question] = (await client.questions()).questions
        assert (question.question, question.details) == (f"Is it {CANARY}?", {"text": CANARY})
        await run.answer("ask#1", LONG, by="ada")
        assert await within(run.update(hears, LONG)) == LONG * 2
        await run.signal(go, "end")
        result = await within(run.result())
        assert result[:5] == [CANARY, CANARY * 3, CANARY * 100, LONG, LONG]
        assert CANARY in result[5]
        assert f"about {CANARY}" in [line.message async for line in run.logs()]
        assert CANARY in (await client.get("r/failing#1").describe()).reason
        assert sealed.blobs.kept
        assert (CANARY in await sealed.raw(client)) is (key == "plain")
        dump = await invariants.dump(cast("Any", client.engine.store))
        assert invariants.check(dump) == []


async def _is_asked(client: hf.Client) -> bool:
    return bool((await client.questions()).questions)


async def test_no_byte_of_a_payload_is_in_the_files(tmp_path: Path, app: hf.App) -> None:
    parent = everything(app)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with app.open(url, keys=RING, settings=hf.Settings(paranoid=True)) as client:
        run = await client.start(parent.bind(CANARY * 300), id="r")
        await run.signal(go, LONG)
        await until(lambda: _is_asked(client))
        files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert any("-blobs/" in str(file) for file in files)
    assert any(str(file).endswith("-wal") for file in files)
    files |= {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert [file for file, data in files.items() if CANARY.encode() in data] == []


def waiting(app: hf.App) -> hf.Workflow[[str], str]:
    @app.step
    async def made(text: str) -> str:
        return text * 200

    @app.workflow
    async def waits(text: str) -> str:
        first = await made(text)
        return first[:4] + await hf.wait_for(go)

    return waits


async def parked(client: hf.Client, bound: Any, id: str) -> hf.RunHandle[Any]:
    run = await client.start(bound, id=id)
    await status_of(run, "waiting")
    return run


async def test_a_run_whose_key_is_missing_is_blocked_and_others_go_on(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    async with sealed.open(app, hf.KeyRing({"old": OLD})) as client:
        await parked(client, waits.bind("abcd"), "lost")
    async with sealed.open(app, hf.KeyRing({"new": NEW})) as client:
        fine = await parked(client, waits.bind("efgh"), "fine")
        lost = client.get("lost")
        await lost.signal(go, "?")
        await fine.signal(go, "!")
        assert await within(fine.result()) == "efgh!"
        await until(lambda: _is_blocked(client, "lost"))
        with pytest.raises(hf.CannotDecrypt, match="of run lost: key 'old' is not on the key ring"):
            await lost.history()
        with pytest.raises(hf.CannotDecrypt):
            await within(lost.result())
    async with sealed.open(app, RING) as client:
        lost = client.get("lost")
        assert (await lost.describe()).reason.startswith("undecodable: ")
        await lost.retry()
        assert await within(lost.result()) == "abcd?"


async def _is_blocked(client: hf.Client, run: str) -> bool:
    found = await client.engine.find(Filter(statuses=("blocked",)), Page())
    return run in [row.id for row in found]


@pytest.mark.parametrize("harm", ["gone", "changed"])
async def test_a_run_whose_blob_is_missing_is_blocked_until_it_is_back(
    sealed: Sealed, app: hf.App, harm: str
) -> None:
    waits = waiting(app)
    async with sealed.open(app) as client:
        await parked(client, waits.bind("abcd"), "r")
    kept = dict(sealed.blobs.kept)
    [name] = kept
    sealed.blobs.kept.clear()
    if harm == "changed":
        sealed.blobs.kept[name] = (b"null", 1)
    async with sealed.open(app) as client:
        run = client.get("r")
        await run.signal(go, "!")
        await until(lambda: _is_blocked(client, "r"))
        assert (await run.describe()).reason.startswith("blob_missing: ")
        with pytest.raises(hf.BlobMissing, match=name):
            await within(run.result())
        dump = await cast("Any", client.engine.store).dump()
        assert [each.invariant for each in invariants.check(dump)] == ["I14"]
        sealed.blobs.kept.update(kept)
        await run.retry()
        assert await within(run.result()) == "abcd!"


async def test_bytes_of_another_run_are_not_read(sealed: Sealed, app: hf.App) -> None:
    """Whoever can write to the database cannot give a run the result of another."""
    waits = waiting(app)
    sealed.inline = 100_000
    async with sealed.open(app, RING) as client:
        for id in ("a", "b"):
            await parked(client, waits.bind(id * 4), id)
        inner = cast("Any", client.engine.store).inner
        exported = {id: await inner.export("default", id) for id in ("a", "b")}
        events = list(exported["a"].events)
        stolen = exported["b"].events[1]
        events[1] = events[1]._replace(payload=stolen.payload)
        row = exported["a"].run._replace(id="c")
        await inner.write([Import(exported["a"]._replace(run=row, events=tuple(events)))])
        with pytest.raises(hf.CannotDecrypt, match="belongs elsewhere"):
            await client.get("c").history()


async def test_after_a_rotation_old_runs_are_read_and_started_again(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    async with sealed.open(app, hf.KeyRing({"old": OLD})) as client:
        await parked(client, waits.bind("abcd"), "r")
    async with sealed.open(app, RING) as client:
        run = await client.start(waits.bind("abcd"), id="r")
        with pytest.raises(hf.RunConflict):
            await client.start(waits.bind("other"), id="r")
        await run.signal(go, "!")
        assert await within(run.result()) == "abcd!"
        raw = await cast("Any", client.engine.store).inner.load("default", "r")
        assert b"old" in raw.events[0].payload[:10]
        assert b"new" in raw.events[-1].payload[:10]


async def test_what_was_stored_without_keys_is_read_and_what_follows_is_encrypted(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    async with sealed.open(app) as client:
        await parked(client, waits.bind(CANARY), "r")
    async with sealed.open(app, RING) as client:
        run = await client.start(waits.bind(CANARY), id="r")
        await run.signal(go, LONG)
        assert await within(run.result()) == CANARY[:4] + LONG
        raw = await cast("Any", client.engine.store).inner.load("default", "r")
        assert (raw.events[0].codec, raw.events[-1].codec > 0) == (0, True)


@pytest.mark.parametrize("former", [None, hf.KeyRing({"old": OLD})], ids=["plain", "old"])
async def test_a_child_is_found_again_by_its_input_after_the_key_has_changed(
    sealed: Sealed, app: hf.App, former: hf.KeyRing | None
) -> None:
    @app.workflow
    async def child(text: str) -> str:
        return text

    @app.workflow
    async def parent(text: str) -> str:
        return await child.options(id="c")(text) + await hf.wait_for(go)

    async with sealed.open(app, former) as client:
        await parked(client, parent.bind("a"), "r")
    async with sealed.open(app, RING) as client:
        run = client.get("r", parent)
        await run.rerun("child#1")
        await run.signal(go, "!")
        assert await within(run.result()) == "a!"


@pytest.mark.parametrize("keys", [None, RING], ids=["plain", "encrypted"])
async def test_a_fork_reads_what_it_shares_and_keeps_its_blobs(
    sealed: Sealed, app: hf.App, keys: hf.KeyRing | None
) -> None:
    waits = waiting(app)
    async with sealed.open(app, keys) as client:
        run = await parked(client, waits.bind("abcd"), "r")
        fork = await run.fork(id="f")
        await run.terminate()
        store = cast("SealedStore", client.engine.store)
        await store.write([Prune("default", store.now() + 1, 10)])
        assert (await store.collect(grace=-1)).collected == 0
        await fork.signal(go, "!")
        assert await within(fork.result()) == "abcd!"


@pytest.mark.parametrize("keys", [None, RING], ids=["plain", "encrypted"])
async def test_a_state_that_a_fork_was_given_is_sealed(
    sealed: Sealed, app: hf.App, keys: hf.KeyRing | None
) -> None:
    graph = app.graph("waits")

    @graph.node(body=True)
    async def wait(state: hf.State) -> dict[str, Any]:
        return {"heard": await hf.wait_for(go)}

    graph.add_edge(hf.START, wait).add_edge(wait, hf.END, hf.key_exists("end"))
    graph.add_edge(wait, wait)
    async with sealed.open(app, keys) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await run.signal(go, "!")
        await event_of(run, "signal.received")
        fork = await hf.Checkpoints(client, "r").fork("wait:1", {"text": LONG}, id="f")
        raw = await sealed.raw(client)
        assert (CANARY in raw) is (keys is None)
        assert bool(sealed.blobs.kept)
        again = await hf.Checkpoints(client, "f").fork("wait:1", {"end": True})
        assert dict(await within(again.result())) == {"heard": "!", "text": LONG, "end": True}
        assert dict(await hf.Checkpoints(client, fork.id).state()) == {"heard": "!", "text": LONG}


async def test_only_what_nobody_names_is_collected_and_after_its_grace(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    async with sealed.open(app) as client:
        store = cast("SealedStore", client.engine.store)
        kept = await parked(client, waits.bind("abcd"), "kept")
        gone = await parked(client, waits.bind("efgh"), "gone")
        await gone.terminate()
        assert (await store.collect(grace=-1)).collected == 0
        await store.write([Prune("default", store.now() + 1, 10)])
        assert await store.collect(grace=2 * store.now()) == (2, 0, 0), "it is too young"
        assert await store.collect(grace=-1, only_looks=True) == (2, 1, 802)
        assert await store.collect(grace=-1) == (2, 1, 802)
        assert await store.collect(grace=-1) == (1, 0, 0)
        await kept.signal(go, "!")
        assert await within(kept.result()) == "abcd!"


async def test_what_is_not_ours_is_not_collected(tmp_path: Path, app: hf.App) -> None:
    async with app.open(f"sqlite:///{tmp_path / 'runs.db'}") as client:
        folder = tmp_path / "runs.db-blobs" / "ab"
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
        (folder / f"{'ab' * 32}-{'0' * 16}.k3_x9a1b.part").write_text("half of a blob")
        found = await cast("SealedStore", client.engine.store).collect(grace=-1)
        assert found.collected == 1
        assert [file.name for file in folder.iterdir()] == ["notes.txt"]


async def test_a_value_may_have_64_mib_with_blobs_and_2_without(
    tmp_path: Path, app: hf.App
) -> None:
    @app.workflow
    async def length(text: str) -> int:
        return len(text)

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    text = "x" * (3 * 1024 * 1024)
    async with app.open(url) as client:
        run = await client.start(length.bind(text))
        assert await within(run.result()) == len(text)
        with pytest.raises(hf.PayloadTooLarge, match="limit is 67,108,864"):
            length.bind("x" * (65 * 1024 * 1024))
    async with app.open(url, blobs=""):
        with pytest.raises(hf.PayloadTooLarge, match=r"3,145,7\d\d bytes.*limit is 2,097,152"):
            length.bind(text)


async def test_what_was_read_from_a_blob_is_written_into_one(
    tmp_path: Path, app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a process that has itself encoded nothing large."""
    text = "x" * (sizes.INLINE + 1)

    @app.workflow
    async def turns(count: int) -> int:
        await asyncio.sleep(0.001)
        if count == 0:
            hf.continue_as_new(turns.bind(1))
        return len(await hf.wait_for(go))

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with app.open(url, worker=False) as client:
        run = await client.start(turns.bind(0), id="r")
        await run.signal(go, text)
    monkeypatch.setattr(sizes, "_were_large", False)
    async with app.open(url) as client:
        assert await within(client.get("r", turns).result()) == len(text)
        inner = cast("SealedStore", client.engine.store).inner
        dump = await cast("Any", inner).dump()
        kept = [event for event in dump.events["default", "r"] if event.kind == "signal.received"]
        assert [event.codec for event in kept] == [BLOB] * 2


@pytest.mark.parametrize("keys", [None, RING], ids=["plain", "encrypted"])
async def test_a_large_result_of_a_transaction_stays_in_its_row(
    sealed: Sealed, app: hf.App, keys: hf.KeyRing | None
) -> None:
    @app.transaction
    def made(tx: hf.Transaction, text: str) -> str:
        return text * 200

    @app.workflow
    async def flow(text: str) -> int:
        return len(await made(text)) + len(await hf.wait_for(go))

    async with sealed.open(app, keys) as client:
        await parked(client, flow.bind("abcd"), "r")
    async with sealed.open(app, keys) as client:
        run = client.get("r", flow)
        await run.signal(go, "!")
        assert await within(run.result()) == 801
        assert sealed.blobs.kept == {}


async def test_a_result_of_a_transaction_that_no_row_should_hold_is_refused_and_undone(
    sealed: Sealed, app: hf.App
) -> None:
    @app.transaction(retry=hf.Retry(max_attempts=1))
    def made(tx: hf.Transaction, size: int) -> str:
        tx.execute("CREATE TABLE shop_traces (n INTEGER)")
        return "x" * size

    @app.workflow
    async def flow(size: int) -> str:
        try:
            return str(len(await made(size)))
        except hf.StepFailed as error:
            return str(error)

    async with sealed.open(app) as client:
        told = await within((await client.start(flow.bind(sizes.WITHOUT_BLOBS))).result())
        assert "result of step made#1: 2,097,154 bytes, and the limit is 2,097,152" in told
        assert "write the data to a table of yours" in told
        few = sizes.WITHOUT_BLOBS - 2
        assert await within((await client.start(flow.bind(few))).result()) == str(few)


@pytest.mark.parametrize(
    ("keys", "told"),
    [(RING, ""), (None, "has no keys: it will block"), (OTHER, "has other: it will block")],
    ids=["all", "none", "another"],
)
async def test_a_worker_that_lacks_a_key_says_so_when_it_begins(
    sealed: Sealed,
    app: hf.App,
    caplog: pytest.LogCaptureFixture,
    keys: hf.KeyRing | None,
    told: str,
) -> None:
    @app.workflow
    async def flow() -> str:
        return await hf.wait_for(go)

    async def has_warned() -> bool:
        return told in caplog.text

    async with sealed.open(app, RING) as client:
        await parked(client, flow.bind(), "r")
    assert "will block" not in caplog.text
    async with sealed.open(app, keys):
        await until(has_warned)
    assert ("encrypted with key 'new'" in caplog.text) is bool(told)


async def test_a_full_disk_under_the_blobs_holds_a_run_up_and_leaves_no_half_of_one(
    tmp_path: Path, app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[bool] = []
    sync, is_full = os.fsync, True

    def fsync(file: int) -> None:
        if is_full and os.readlink(f"/proc/self/fd/{file}").endswith(".part"):
            refused.append(True)
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    async def is_refused() -> bool:
        return len(refused) > 1

    @app.step
    async def large() -> str:
        return "x" * (sizes.INLINE + 1)

    @app.workflow
    async def flow() -> int:
        return len(await large())

    monkeypatch.setattr(os, "fsync", fsync)
    async with app.open(f"sqlite:///{tmp_path / 'runs.db'}") as client:
        run = await client.start(flow.bind())
        await until(is_refused)
        assert (await run.describe()).status == "running"
        is_full = False
        assert await within(run.result()) == sizes.INLINE + 1
        blobs = [file for file in (tmp_path / "runs.db-blobs").rglob("*") if file.is_file()]
        assert [file.suffix for file in blobs] == [""] * len(blobs)


async def test_what_the_blob_store_does_not_take_is_tried_again(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    refused: list[str] = []
    put = sealed.blobs.put

    async def put_later(name: str, data: bytes) -> None:
        if len(refused) < 3:
            refused.append(name)
            raise hf.StoreUnavailable("The bucket is away. Try again.")
        await put(name, data)

    sealed.blobs.put = put_later  # type: ignore[method-assign]
    async with sealed.open(app) as client:
        run = await client.start(waits.bind("abcd"), id="r")
        await run.signal(go, "!")
        assert await within(run.result()) == "abcd!"
        assert len(refused) == 3
        assert set(refused).isdisjoint(await cast("SealedStore", client.engine.store).named_blobs())


async def test_a_process_without_keys_says_which_one_is_missing(
    sealed: Sealed, app: hf.App
) -> None:
    waits = waiting(app)
    async with sealed.open(app, RING) as client:
        await parked(client, waits.bind("abcd"), "r")
    async with sealed.open(app, runs=1) as client:
        with pytest.raises(hf.CannotDecrypt, match="key 'new' is needed, and there is no key ring"):
            await client.get("r").history()
        [row] = (await client.list()).runs
        assert (row.id, row.status) == ("r", "waiting")
        assert "key 'new', which is not here" in row.reason
