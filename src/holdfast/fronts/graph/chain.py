"""`process_chain`: a value that goes through many items, one after the other.

It works anywhere. In the body of a workflow, or in a node with `body=True`, give it a step: then
each item is recorded by itself, and after a crash the chain goes on after the last that was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from holdfast.errors import ChainError
from holdfast.fronts.graph.calling import begun, check_progress, tell
from holdfast.fronts.graph.config import ChainConfig

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
) -> ChainResult[A]: ...
@overload
async def process_chain(
    items: Iterable[T],
    initial: A,
    processor: Callable[[T, A], A],
    config: ChainConfig = DEFAULT,
    progress: Progress[A] | None = None,
) -> ChainResult[A]: ...
async def process_chain(
    items: Iterable[Any],
    initial: Any,
    processor: Callable[[Any, Any], Any],
    config: ChainConfig = DEFAULT,
    progress: Progress[Any] | None = None,
) -> ChainResult[Any]:
    """Call `processor(item, state)` with one item after the other; each returns the next state.

    The first error raises `ChainError`, with the state before it. `progress(completed, total,
    state)` is called after each step; in a body, when that is stored.
    """
    check_progress(progress)
    given, state = list(items), initial
    captured = [initial] if config.capture_intermediate_states and given else []
    for index, item in enumerate(given):
        try:
            after = await begun(processor, item, state)
        except Exception as error:
            raise ChainError(
                step_index=index, item=item, state=state, intermediate=tuple(captured), cause=error
            ) from error
        state = after
        if captured:
            captured.append(state)
        tell(progress, index + 1, len(given), state)
    return ChainResult(state, len(given), tuple(captured))
