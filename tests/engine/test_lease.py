"""The thread of the lease stays out of the way of the first runs, and of no renewal."""

import asyncio
import errno
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.hosts.worker import lease as module
from holdfast.hosts.worker.lease import Lease
from holdfast.model.commands import RenewLease
from holdfast.stores.memory import MemoryStore


def lease_of(store: MemoryStore, renew: float) -> Lease:
    return Lease(store, RenewLease("A", 3_000_000), renew=renew, is_needed=lambda: True)


async def test_the_first_call_comes_after_a_head_start() -> None:
    called, lease = threading.Event(), lease_of(MemoryStore(), renew=60)
    lease.start(called.set)
    assert not called.is_set()
    assert await asyncio.to_thread(called.wait, 30)
    await lease.stop()


async def test_who_stops_at_once_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_START", 60)
    called, lease = threading.Event(), lease_of(MemoryStore(), renew=60)
    lease.start(called.set)
    await lease.stop()
    assert not called.is_set()


async def test_the_head_start_holds_up_no_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_START", 60)
    asked, command = threading.Event(), RenewLease("A", 3_000_000)

    def is_needed() -> bool:
        asked.set()
        return False

    lease = Lease(MemoryStore(), command, renew=0.01, is_needed=is_needed)
    lease.start()
    assert await asyncio.to_thread(asked.wait, 30)
    await lease.stop()


async def test_what_fails_a_renewal_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a process that has no file left for the loop in which it renews."""
    renewed, tries, run = threading.Event(), list[str](), asyncio.run

    def runs(renewal: Coroutine[Any, Any, None]) -> None:
        tries.append("")
        if len(tries) < 3:
            renewal.close()
            raise OSError(errno.EMFILE, "Too many open files")
        run(renewal)
        renewed.set()

    lease = lease_of(MemoryStore(), renew=0.01)
    monkeypatch.setattr(module, "HEAD_START", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "run", runs)
        lease.start()
        assert await asyncio.to_thread(renewed.wait, 10)
        await lease.stop()
    told = [record.message for record in caplog.records]
    assert told == ["the lease could not be renewed: [Errno 24] Too many open files"]


async def test_no_thread_is_left_behind() -> None:
    before, asked = threading.enumerate(), threading.Event()

    def first() -> None:
        threading.current_thread()  # as `logging` does: who is no thread of Python's gets one
        asked.set()

    lease = lease_of(MemoryStore(), renew=60)
    lease.start(first)
    assert await asyncio.to_thread(asked.wait, 30)
    await lease.stop()
    names = {thread.name for thread in threading.enumerate() if thread not in before}
    assert not any("lease" in name or "Dummy" in name for name in names)
