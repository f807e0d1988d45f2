"""Scenarios of the sweep in which payloads are encrypted, and larger ones are blobs."""

import asyncio

import holdfast as hf
from holdfast.blobs.memory import MemoryBlobs
from holdfast.ports.store import Store
from holdfast.stores.sealed import SealedStore
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-payloads")
note = hf.Signal("note", str)
RING = hf.KeyRing({"old": bytes(32), "new": bytes(range(32))}, current="new")
INLINE = 400
LONG = 1_000
"""More bytes than a row takes, encrypted or not."""


@app.step
async def write(letter: str, size: int) -> str:
    effect(letter)
    return letter * size


@app.workflow
async def chapter(letter: str) -> str:
    return await write(letter, LONG)


@app.workflow
async def book(title: str) -> list[str]:
    first = await write("a", LONG)
    second, third = await asyncio.gather(chapter("b"), write("c", 5))
    await asyncio.sleep(1)
    return [title, first, second, third]


@app.workflow
async def margin() -> str:
    return (await hf.wait_for(note))[:3]


async def run_book(caller: Caller) -> None:
    await caller.start(book.bind("t" * LONG), "book")
    await caller.start(margin.bind(), "margin")
    await caller.signal("margin", note, "note" * LONG, id="n")
    assert await caller.result("margin") == ("completed", "not")
    parts = ["t" * LONG, "a" * LONG, "b" * LONG, "c" * 5]
    assert await caller.result("book") == ("completed", parts)


def in_blobs(world: World, store: Store) -> SealedStore:
    blobs = world.beside.setdefault("blobs", MemoryBlobs(world.loop.clock))
    return SealedStore(store, blobs=blobs, inline=INLINE)


def encrypted(world: World, store: Store) -> SealedStore:
    blobs = world.beside.setdefault("blobs", MemoryBlobs(world.loop.clock))
    return SealedStore(store, keys=RING, blobs=blobs, inline=INLINE)


def nothing_is_lost_or_left(world: World) -> list[str]:
    """I14, beside what a dump tells: a collection leaves what is named, and nothing else."""
    blobs: MemoryBlobs = world.beside["blobs"]
    unread = [f"I14: {why}" for _, why in world.dump.unread]
    return unread + ([] if blobs.kept else ["no payload was long enough for a blob"])


PAYLOADS = (
    Scenario("blobs", app, run_book, around=in_blobs, check=nothing_is_lost_or_left),
    Scenario("encrypted", app, run_book, around=encrypted, check=nothing_is_lost_or_left),
)
