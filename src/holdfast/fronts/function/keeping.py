"""The body of an entity: keeps the state, and lets one method at a time change it.

Between updates the state is bytes. Each update gets a copy, and only one that ends well leaves its
copy behind: a method that raises has changed nothing, and nothing outlives a method that would not
outlive a restart. A query, and a validator, look at a copy too.

When the history has become long, and no update is under way, the body continues as new with its
state. Updates that came meanwhile wait in the inbox; none is lost.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadDefinition
from holdfast.machine.continuing import SUGGESTED, continue_with, should_continue
from holdfast.machine.handlers import Handler, handlers_of
from holdfast.machine.primitives import here
from holdfast.machine.talk import Query, Update
from holdfast.machine.values import Schema

if TYPE_CHECKING:
    from holdfast.fronts.function.entity import Entity
    from holdfast.fronts.function.methods import QueryMethod, UpdateMethod

KEY = "key"
"""The field that gets the key of the entity, if there is one."""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What a method is called with."""


class Keeper:
    """The state of one entity, and who may see or change it."""

    def __init__(self, entity: Entity[Any], key: str, state: Any) -> None:
        self._entity, self._key = entity, key
        self._machine = here("an entity")
        self._schema: Schema[Any] = Schema.of(entity.cls)
        self._kept = self._encoded(entity.fresh(key) if state is None else state)
        self._is_over = False
        self._changed: Future[None] | None = None

    async def live(self) -> Any:
        """Take messages until a method ends the entity; return its last state."""
        self._register()
        after = self._entity.continue_after or SUGGESTED
        while not self._is_over:
            if should_continue(after):
                signature = self._entity.workflow.signature
                continue_with(self._machine, signature.encode((self._key, self._state()), {}))
            self._changed = Future(loop=self._machine.loop)
            await self._changed
        return self._state()

    def end(self) -> None:
        """Take no more messages once the update that runs now has ended well."""
        self._is_over = True

    def _register(self) -> None:
        handlers = handlers_of(self._machine)
        handlers.keeper = self
        for update in self._entity.updates.values():
            check = None if update.check is None else self._check(update.check)
            handlers.register(Update, Handler(update.talk, self._update(update), check))
        for query in self._entity.queries.values():
            handlers.register(Query, Handler(query.talk, self._query(query)))

    # --- what is called

    def _update(self, method: UpdateMethod[Any, ..., Any]) -> Callable[[Call], Awaitable[Any]]:
        async def work(call: Call) -> Any:
            args, kwargs = call
            state, kept = self._state(), None
            try:
                found = await method.function(state, *args, **kwargs)
                method.talk.reply(found)  # what cannot be told has not happened
                kept = self._encoded(state)
            finally:
                self._is_over = self._is_over and kept is not None
                self._kept = kept or self._kept
                self._wake()
            return found

        return work

    def _query(self, method: QueryMethod[Any, ..., Any]) -> Callable[[Call], Any]:
        return lambda call: look(self._schema, self._kept, method, call)

    def _check(self, check: Callable[..., None]) -> Callable[[Call], None]:
        def judge(call: Call) -> None:
            args, kwargs = call
            check(self._state(), *args, **kwargs)

        return judge

    # --- the state

    def _state(self) -> Any:
        return self._schema.decode(self._kept, where=f"state of {self._entity.name}")

    def _encoded(self, state: Any) -> bytes:
        return self._schema.encode(state, where=f"state of {self._entity.name}")

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


def look(schema: Schema[Any], kept: bytes, method: QueryMethod[Any, ..., Any], call: Call) -> Any:
    """Return what a query says of a state. Raises `BadDefinition` if it changes it."""
    args, kwargs = call
    state, before = (schema.decode(kept, where="state") for _ in range(2))
    found = method.function(state, *args, **kwargs)
    if schema.encode(state, where="state") != schema.encode(before, where="state"):
        raise BadDefinition(
            what=f"query {method.name!r} changed the state",
            hint="A query only looks: make it an update.",
        )
    return found


def end_entity() -> None:
    """End the entity whose update calls this, once that update has ended well.

    Its run completes with the last state. From then on it refuses messages with `RunClosed`.
    """
    machine = here("hf.end_entity()")
    keeper: Keeper | None = machine.handlers.keeper if machine.handlers is not None else None
    if keeper is None:
        raise BadDefinition(
            what="hf.end_entity() was called outside of an entity",
            hint="Call it in a method marked with @hf.update; a workflow ends by returning.",
        )
    keeper.end()
