"""What a body may do besides calling steps: wait, ask the time, and draw lots.

Time is that of the event being processed. Chance and identity are drawn from the run, the task's
path and a count, so a replay draws the same, and so does a retry, which reuses recorded results. In
what a fork shares with another run, that one's chance is drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from holdfast.errors import NotInBody
from holdfast.machine.edits import is_before_edit
from holdfast.machine.machine import Machine, current
from holdfast.machine.signals import Carries, Signal
from holdfast.machine.tasks import transparent
from holdfast.model.durations import Duration, microseconds
from holdfast.model.events import Event
from holdfast.model.schedules import slot_in
from holdfast.model.travel import seeds_of

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def here(call: str) -> Machine:
    """Return the machine whose body runs `call`. Raises `NotInBody`."""
    machine = current()
    if machine is None:
        raise NotInBody(call=call)
    if machine.loop.dead:
        machine.loop.refuse()
    return machine


def now() -> datetime:
    """Return the time of the event being processed, in UTC."""
    return _EPOCH + timedelta(microseconds=here("hf.now()").now)


def scheduled_at() -> datetime | None:
    """Return the nominal time of the slot that this run was started for, in UTC.

    None in a run that no schedule has started; in one that was triggered, when it was.
    """
    slot = slot_in(here("hf.scheduled_at()").slot)
    return None if slot is None else _EPOCH + timedelta(microseconds=slot)


def random() -> Random:
    """Return a generator of random numbers that draws the same again in a replay."""
    return Random(_seed(here("hf.random()"), "random", 32))


def uuid() -> UUID:
    """Return an id no other call gets, and a replay gets again."""
    return UUID(bytes=_seed(here("hf.uuid()"), "uuid", 16), version=4)


def _seed(machine: Machine, kind: str, size: int) -> bytes:
    run = machine.run if machine.past is None else _drawn_by(machine, machine.past)
    drawn = (machine.ns, run, *_begun(machine), machine.take_key(kind))
    return blake2b("\0".join(drawn).encode(), digest_size=size).digest()


def _begun(machine: Machine) -> tuple[str, ...]:
    """Tell apart what a continued run draws: its keys begin again. A retry draws the same."""
    return (str(machine.began),) if machine.began > 1 else ()


def _drawn_by(machine: Machine, past: Sequence[Event]) -> str:
    """Return whose chance a replayed turn draws: a fork's is its origin's, before where it left."""
    if machine.seeds is None:
        machine.seeds = seeds_of(past)
    if not machine.seeds:
        return machine.run
    seq = machine.seq - is_before_edit(machine, past)
    return next((run for before, run in machine.seeds if seq < before), machine.run)


def sleep(duration: Duration) -> Coroutine[Any, Any, None]:
    """Wait for `duration` from the moment this is awaited, through any restart."""
    machine = here("hf.sleep()")
    delay = microseconds(duration, field="hf.sleep")
    if not delay:
        return _pause()
    key = machine.take_key("timer")
    return machine.track(key, _sleep(machine, key, delay))


@transparent
async def _pause() -> None:
    await asyncio.sleep(0)


@transparent
async def _sleep(machine: Machine, key: str, delay: int) -> None:
    machine.begin(key)
    future = machine.loop.create_future()
    timer = machine.loop.schedule(key, machine.now + delay, _wake, (future,))
    try:
        await future
    finally:
        timer.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@transparent
async def wait_for(signal: Carries[T], timeout: Duration | None = None) -> T:
    """Return what the next signal of that name carries; one that came before counts.

    Raises `TimeoutError` if none came within `timeout`.
    """
    machine = here("hf.wait_for()")
    awaited = cast("Signal[T]", signal)
    if timeout is None:
        return await machine.mailbox.wait(awaited)
    seconds = microseconds(timeout, field="hf.wait_for timeout") / 1e6
    async with asyncio.timeout(seconds):
        return await machine.mailbox.wait(awaited)
