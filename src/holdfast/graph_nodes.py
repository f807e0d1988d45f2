"""Nodes as steps: what a node's function is given of its state, and what of its result is kept.

A step is recorded with what the node changed, and nothing else. An `hf.State` crosses with a mark:
where the run is, and the names of its secrets. What these are, the worker gives to the attempt.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

from holdfast.errors import NonRetryable
from holdfast.fronts.function.context import CURRENT, NO_SECRETS
from holdfast.fronts.function.naming import is_async
from holdfast.fronts.function.step import Step
from holdfast.fronts.graph.carrying import carried_in, carry, taking
from holdfast.fronts.graph.exposing import refuse_exposed, warn_of_exposed
from holdfast.fronts.graph.shapes import Delta, Shape
from holdfast.fronts.graph.state import Mark, State, mark_of
from holdfast.model.durations import microseconds
from holdfast.model.secrets import Secret

NO_MARK: Mark = {}


def function_of(shape: Shape, name: str, given: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a node's step: it gives only what `given` changed."""
    made: Any = _marked(shape, name, given) if shape.cls is State else _plain(shape, name, given)
    functools.update_wrapper(made, given)
    del made.__wrapped__
    made.__annotations__ = {"state": shape.cls, "mark": Mark, "return": shape.delta}
    function: Callable[..., Any] = made
    return function


def call_of(shape: Shape, step: Any) -> Callable[[Any, bytes], Coroutine[Any, Any, Delta]]:
    """Return what a walk calls to have a node's step done."""
    travels = step.settings.queue is not None or step.settings.cache is not None
    if not travels:
        step.takes = taking(shape)
    send = _send if travels else carry
    if shape.cls is not State:
        return functools.partial(send, step)
    step.secrets_in = _named_in
    needing = dict[tuple[str, ...], Any]()

    def call(state: State, past: bytes) -> Coroutine[Any, Any, Delta]:
        mark, asked = mark_of(state), step
        if names := tuple(mark.get("secrets", ())):
            asked = needing.get(names)
            if asked is None:
                asked = needing[names] = _listing(step, names)
        return send(asked, state, past, mark)

    return call


def _send(step: Any, state: Any, _past: bytes, *rest: Any) -> Coroutine[Any, Any, Any]:
    """Call a node's step with a state that is stored with its arguments."""
    call: Coroutine[Any, Any, Any] = step(state, *rest)
    return call


def limit(
    name: str, given: Callable[[Any], Awaitable[Any]], options: Mapping[str, Any]
) -> Callable[[Any], Awaitable[Any]]:
    """Return a node's body that ends in time, if it has a `timeout`. Raises `InvalidDuration`."""
    if options.get("timeout") is None:
        return given
    seconds = microseconds(options["timeout"], field="timeout") / 1_000_000

    async def limited(state: Any) -> Any:
        whole = asyncio.timeout(seconds)
        try:
            async with whole:
                return await given(state)
        except TimeoutError as error:
            if not whole.expired():
                raise
            raise TimeoutError(f"node {name} took longer than {seconds:g} s") from error

    return limited


def kept(shape: Shape, before: Mapping[str, Any], result: Any, node: str, had: State) -> Delta:
    """Return what a node changed. Raises `NonRetryable` if it set a secret of an `hf.State`."""
    if isinstance(result, State):
        for name, secret in result.secrets.items():
            if had.secrets.get(name) != secret or name not in had.secrets:
                raise NonRetryable(_set_too_late(node, name))
    delta = shape.difference(before, result, node)
    if shape.cls is State and (new := delta.get("set")):
        if shape.is_strict:
            refuse_exposed(new, f"Node {node!r}")
        elif not isinstance(result, State):  # which has warned where it was set
            warn_of_exposed(new, f"Node {node!r}")
    return delta


def _plain(shape: Shape, name: str, given: Callable[..., Any]) -> Any:
    async def later(state: Any) -> Any:
        before = _before(shape, state)
        return shape.difference(before, await given(state), name)

    def now(state: Any) -> Any:
        before = _before(shape, state)
        return shape.difference(before, given(state), name)

    return later if is_async(given) else now


def _marked(shape: Shape, name: str, given: Callable[..., Any]) -> Any:
    async def later(state: State, mark: Mark = NO_MARK) -> Any:
        state = _arrived(state, mark)
        before = _before(shape, state)
        return kept(shape, before, await given(state), name, state)

    def now(state: State, mark: Mark = NO_MARK) -> Any:
        state = _arrived(state, mark)
        before = _before(shape, state)
        return kept(shape, before, given(state), name, state)

    return later if is_async(given) else now


def _before(shape: Shape, state: Any) -> Mapping[str, Any]:
    """Return what to compare a node's result with, which the node cannot change."""
    attempt = CURRENT.get(None)
    carried = None if attempt is None else carried_in(attempt.args)
    if carried is None:
        return shape.before(state)
    if type(carried) is dict:  # it is only looked at
        return cast("dict[str, Any]", carried)
    return shape.values(carried)


def _arrived(state: State, mark: Mark) -> State:
    """Return the state as a node gets it: of its run, with the secrets of the attempt."""
    attempt = CURRENT.get(None)
    if attempt is None:  # a plain call, as in a unit test
        return state
    given: Mapping[str, Secret | None] = attempt.secrets or NO_SECRETS
    return state.placed(attempt.run, mark.get("node", ""), mark.get("at", 0)).holding(given)


def _listing(step: Step[..., Any], names: tuple[str, ...]) -> Step[..., Any]:
    """Return a step that gets these secrets too."""
    made = copy.copy(step)
    made.secrets = tuple(dict.fromkeys((*step.secrets, *names)))
    return made


def _named_in(args: bytes) -> tuple[str, ...]:
    """Return the names of the secrets that go with the arguments of a node's step."""
    return tuple(json.loads(args).get("mark", NO_MARK).get("secrets", ()))


def _set_too_late(node: str, name: str) -> str:
    return (
        f"Node {node!r} set the secret {name!r:.60}. It would be gone after a crash, because "
        f"nothing of it is stored. Set it on the state that the run starts with, or let the app's "
        f"provider find it."
    )
