"""How a body says what it answers, and what it does when it is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, TypeVar, overload

from holdfast.errors import BadDefinition
from holdfast.machine.handlers import Handler, handlers_of
from holdfast.machine.primitives import here
from holdfast.machine.talk import Query, Update
from holdfast.machine.tasks import transparent

A = TypeVar("A")
R = TypeVar("R")


@overload
def handle(talk: Query[None, R], handler: Callable[[], R]) -> None: ...
@overload
def handle(talk: Query[A, R], handler: Callable[[A], R]) -> None: ...
@overload
def handle(
    talk: Update[None, R],
    handler: Callable[[], Awaitable[R]] | Callable[[], R],
    *,
    validate: Callable[[], None] | None = None,
) -> None: ...
@overload
def handle(
    talk: Update[A, R],
    handler: Callable[[A], Awaitable[R]] | Callable[[A], R],
    *,
    validate: Callable[[A], None] | None = None,
) -> None: ...
def handle(talk: Any, handler: Any, *, validate: Any = None) -> None:
    """Say who answers a query, or who carries an update out. Once for each name in a body.

    A query's handler is a plain function: it reads the body's state and asks for nothing. That of
    an update may be asynchronous and call steps; its result, or what it raises, goes to the
    caller. `validate`, a plain function too, refuses an update by raising: then nothing of it is
    recorded.
    """
    machine = here("hf.handle()")
    if not isinstance(talk, Query | Update):
        what = f"hf.handle was given {talk!r:.60}, no query and no update"
        raise BadDefinition(what=what, hint="Declare one: hf.Query(...) or hf.Update(...).")
    for what, function in (("handler", handler), ("validator", validate)):
        if function is None and what == "validator":
            continue
        if not callable(function):
            raise BadDefinition(
                what=f"the {what} of {talk!r} is {function!r:.60}, which cannot be called",
                hint="Give a function.",
            )
        is_plain = what == "validator" or isinstance(talk, Query)
        if is_plain and iscoroutinefunction(function):
            raise BadDefinition(
                what=f"the {what} of {talk!r} is asynchronous",
                hint="Make it a plain `def`: it looks at the body's state and waits for nothing.",
            )
    if validate is not None and isinstance(talk, Query):
        raise BadDefinition(
            what=f"{talk!r} was given a validator",
            hint="Only updates have one; have the handler of the query raise.",
        )
    kind: Any = Query if isinstance(talk, Query) else Update
    handlers_of(machine).register(kind, Handler(talk, handler, validate))


@transparent
async def handlers_finished() -> None:
    """Wait until no update is under way: call it at the end of a body that takes updates."""
    machine = here("hf.handlers_finished()")
    handlers = machine.handlers
    if handlers is None:
        return
    if asyncio.current_task() in handlers.running.values():
        raise BadDefinition(
            what="the handler of an update waits for all handlers to finish, itself among them",
            hint="Call hf.handlers_finished() in the body.",
        )
    await handlers.finished()
