"""`process_chain`: a value that goes through many items, one after the other.

It works anywhere. In the body of a workflow, or in a node with `body=True`, give it a step: then
each item is recorded by itself, and after a crash the chain goes on after the last that was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from holdfast.errors import ChainError
from holdfast.fronts.graph.calling import begun, check_progress, tell
from holdfast.fronts.graph.config import ChainConfig
from holdfast.fronts.graph.telling import Listener, Tell, problem_of, telling

T = TypeVar("T")
A = TypeVar("A")
Progress = Callable[[int, int, A], object]

DEFAULT = ChainConfig()


@dataclass(frozen=True, slots=True)
class ChainResult(Generic[A]):
    """The state after the last item, how many there were, and, if kept, the states before it."""

    final: A
    steps: int
    intermediate: tuple[A, ...] = ()


@overload
async def process_chain(
    items: Iterable[T],
    initial: A,
    processor: Callable[[T, A], Awaitable[A]],
    config: ChainConfig = DEFAULT,
    progress: Progress[A] | None = None,
    *,
    observer: Listener | None = None,
) -> ChainResult[A]: ...
@overload
async def process_chain(
    items: Iterable[T],
    initial: A,
    processor: Callable[[T, A], A],
    config: ChainConfig = DEFAULT,
    progress: Progress[A] | None = None,
    *,
    observer: Listener | None = None,
) -> ChainResult[A]: ...
async def process_chain(
    items: Iterable[Any],
    initial: Any,
    processor: Callable[[Any, Any], Any],
    config: ChainConfig = DEFAULT,
    progress: Progress[Any] | None = None,
    *,
    observer: Listener | None = None,
) -> ChainResult[Any]:
    """Call `processor(item, state)` with one item after the other; each returns the next state.

    The first error raises `ChainError`, with the state before it. `progress(completed, total,
    state)` is called after each step; in a body, when that is stored. `observer` is told of all
    steps; in a body, those of the graph are.
    """
    check_progress(progress)
    given, captures = list(items), config.capture_intermediate_states
    async with telling("process_chain", observer) as told:
        has_progress = progress is not None
        told(
            "chain.start", item_count=len(given), has_progress_callback=has_progress,
            capture_intermediate=captures,
        )  # fmt: skip
        links = _Chain(given, processor, progress, told, [initial] if captures and given else [])
        try:
            final = await links.run(initial)
        except BaseException as error:
            kind = "cancellation" if isinstance(error, asyncio.CancelledError) else "processor"
            told("chain.complete", steps_completed=links.done, error_type=kind, **problem_of(error))
            raise
        told("chain.complete", steps_completed=links.done, error=False)
    return ChainResult(final, len(given), tuple(links.captured))


class _Chain:
    """One call under way."""

    def __init__(
        self,
        items: list[Any],
        processor: Callable[[Any, Any], Any],
        progress: Progress[Any] | None,
        told: Tell,
        captured: list[Any],
    ) -> None:
        self._items, self._processor, self._progress = items, processor, progress
        self._told, self.captured, self.done = told, captured, 0

    async def run(self, state: Any) -> Any:
        """Return the state after the last item. Raises `ChainError`."""
        total = len(self._items)
        for index, item in enumerate(self._items):
            self._told("step.start", step_index=index, total_steps=total)
            try:
                after = await begun(self._processor, item, state)
            except BaseException as error:
                problem = problem_of(error)
                self._told("step.complete", step_index=index, total_steps=total, **problem)
                if not isinstance(error, Exception):
                    raise
                kept = tuple(self.captured)
                raise ChainError(
                    step_index=index, item=item, state=state, intermediate=kept, cause=error
                ) from error
            state, self.done = after, index + 1
            if self.captured:
                self.captured.append(state)
            self._told("step.complete", step_index=index, total_steps=total, error=False)
            tell(self._progress, self.done, total, state)
        return state
