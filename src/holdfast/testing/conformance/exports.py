"""Export and import: everything of a run, and nothing of it happens by itself."""

from __future__ import annotations

import json

from holdfast.errors import RunConflict
from holdfast.model.commands import ImportRun
from holdfast.model.exports import Export, document_of, export_of
from holdfast.model.labels import Labels
from holdfast.model.run import Run
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, answer, refused


async def exported(harness: Harness, run: str = "r", ns: str = "default") -> Export:
    """Return all of a run that must be there."""
    export = await harness.store.export(ns, run)
    assert export is not None
    return export


async def taken(harness: Harness, export: Export, id: str = "copy", ns: str = "default") -> Run:
    """Import a run, by way of the file it is written to."""
    read = export_of(json.loads(json.dumps(document_of(export))))
    assert read == export
    return Run._make(await harness.send(ImportRun(ns, id, read, harness.store.now())))


async def test_an_unknown_run_is_none(harness: Harness) -> None:
    assert await harness.store.export("default", "nobody") is None


async def test_a_closed_run_arrives_as_it_was(harness: Harness) -> None:
    run = await harness.held("r", labels=Labels(("vip",), {"n": 1.0, "is_new": True}))
    await harness.signal("s1", payload=b"\xff\x00")
    await harness.commit(run, answer(payload=b"\xff", digest=b"0123456789abcdef", took=7))
    await harness.end(await harness.row("r"))
    export = await exported(harness)
    assert len(export.inbox) == 1
    copy = await taken(harness, export)
    assert copy == export.run._replace(id="copy")
    assert await exported(harness, "copy") == export._replace(run=copy)


async def test_superseded_events_and_read_messages_come_along(harness: Harness) -> None:
    await harness.in_status("failed")
    await harness.retry("r")
    export = await exported(harness)
    assert [event.superseded_by for event in export.events] == [None, 3, None]
    await taken(harness, export)
    arrived = await exported(harness, "copy")
    assert arrived.events[:3] == export.events
    assert arrived.living == (await harness.load("copy")).events


async def test_what_could_go_on_arrives_paused(harness: Harness) -> None:
    for status in ("pending", "running", "waiting"):
        await harness.in_status(status, id=status)
        copy = await taken(harness, await exported(harness, status), f"{status}-copy")
        assert (copy.status, copy.reason, copy.owner, copy.wake_at) == (
            "paused", "imported", None, None,
        )  # fmt: skip
        assert (await harness.load(copy.id)).events[-1].kind == "run.paused"
    harness.clock.advance(100 * SECOND)
    claimed = await harness.claim("B")
    assert not {run.id for run in claimed.runs} & {"pending-copy", "running-copy", "waiting-copy"}


async def test_what_could_not_stays_as_it_was(harness: Harness) -> None:
    for status in ("paused", "blocked", "quarantined", "failed", "terminated"):
        run = await harness.in_status(status, id=status)
        copy = await taken(harness, await exported(harness, status), f"{status}-copy")
        assert (copy.status, copy.reason, copy.seq) == (status, run.reason, run.seq)


async def test_a_resumed_import_goes_on(harness: Harness) -> None:
    await harness.start("r")
    await taken(harness, await exported(harness))
    await harness.move("resume", "copy")
    claimed = await harness.claim("A")
    assert "copy" in {run.id for run in claimed.runs}
    assert await harness.kinds("copy") == ["run.started", "run.paused", "run.resumed"]


async def test_an_id_that_is_taken_is_refused(harness: Harness) -> None:
    before = await harness.start("r", labels=Labels(("mine",)))
    export = await exported(harness)
    with refused(RunConflict):
        await taken(harness, export, "r")
    assert await harness.row("r") == before
    assert await exported(harness) == export
    assert (await taken(harness, export, "r", ns="other")).ns == "other"
