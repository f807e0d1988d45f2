"""Queues with limits, as seen from outside: list them, pause them, let them go on, change them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.engines.local import LocalEngine
from holdfast.errors import UnknownQueue
from holdfast.kernel import dispatch
from holdfast.model.commands import ChangeQueue
from holdfast.model.limits import Limits, QueueState, Rate, checked_limits, checked_managed
from holdfast.ports.store import Store


class Queues:
    """The queues of a store that have limits or are paused. `client.queues` is one."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def list(self) -> tuple[QueueState, ...]:
        """Return them by name, each with its limits, slots held and what waits in line."""
        return tuple(await self._engine.store.queues(self._engine.ns))

    async def get(self, name: str) -> QueueState:
        """Return one of them. Raises `UnknownQueue` if it has neither limits nor a line."""
        found = {state.queue.name: state for state in await self.list()}
        if name not in found:
            raise UnknownQueue(queue=name, known=tuple(found))
        return found[name]

    async def pause(self, name: str) -> bool:
        """Let no more runs and jobs of a queue begin; tell whether that is news.

        Those that have begun go on. Raises `InvalidValue` for the usual queue.
        """
        return await self._change(name, paused=True)

    async def resume(self, name: str) -> bool:
        """Let runs and jobs of a queue begin again; tell whether that is news."""
        return await self._change(name, paused=False)

    async def set(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        worker_concurrency: int | None = None,
        rate: Rate | None = None,
    ) -> bool:
        """Give a queue these limits in the place of those it had; tell whether that is news.

        What is not given is no limit. What has begun goes on, also if it is more than the
        new limits allow. What `app.queue` says counts again at the next `open`. Raises
        `BadDefinition` or `InvalidValue`.
        """
        limits = checked_limits(
            name,
            concurrency=concurrency,
            key_concurrency=key_concurrency,
            worker_concurrency=worker_concurrency,
            rate=rate,
        )
        return await self._change(name, limits=limits)

    async def _change(
        self, name: str, *, limits: Limits | None = None, paused: bool | None = None
    ) -> bool:
        queue = checked_managed(name, "a queue with limits")
        command = ChangeQueue(self._engine.ns, queue, limits, paused)
        is_news: bool = await self._engine.do(command)
        return is_news


async def declare(store: Store, ns: str, queues: Mapping[str, Limits]) -> None:
    """Give queues the limits that an app says they have."""
    commands = [ChangeQueue(ns, name, limits) for name, limits in sorted(queues.items())]
    await store.write([dispatch.decide(command) for command in commands])
