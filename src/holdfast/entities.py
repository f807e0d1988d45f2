"""Talking to an entity: its methods are called by what they are named in its class."""

from __future__ import annotations

from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from holdfast.errors import BadDefinition, QueryFailed, RunNotFound
from holdfast.fronts.function.entity import Entity
from holdfast.fronts.function.keeping import look
from holdfast.fronts.function.methods import Method, QueryMethod, UpdateMethod
from holdfast.fronts.function.workflow import Bound
from holdfast.machine.talk import BoundUpdate
from holdfast.machine.values import Schema
from holdfast.model.failures import failure_of
from holdfast.talking import Talking

E = TypeVar("E")
P = ParamSpec("P")
U = TypeVar("U")


class Starts(Protocol):
    """What is needed of a client."""

    async def update_with_start(self, bound: Bound[Any], update: BoundUpdate[U], *, id: str) -> U:
        """Update the run of that id; start it with the update if there is none."""
        ...


class EntityHandle(Generic[E]):
    """The entity of one key, as seen from outside. Made by `client.entity(Cart, "ada")`.

    `id` is that of the run that keeps it.
    """

    def __init__(
        self,
        client: Starts,
        run: Talking,
        entity: Entity[E],
        key: str,
        update_id: str | None = None,
    ) -> None:
        self._client, self._run, self._entity = client, run, entity
        self.key, self._update_id = key, update_id
        self.id = run.id

    def __repr__(self) -> str:
        return f"<entity {self.id}>"

    async def update(
        self, method: UpdateMethod[E, P, U], /, *args: P.args, **kwargs: P.kwargs
    ) -> U:
        """Have the entity carry out a method; return its result: `cart.update(Cart.add, "lamp")`.

        An entity that is not there begins with it, in one commit. Raises `UpdateRejected` if its
        validator refused, `UpdateFailed` if the method raised (the state is what it was before),
        `RunClosed` if the entity has ended.
        """
        known = self._known(method, self._entity.updates, "update")
        bound: BoundUpdate[U] = known.bound(args, kwargs, self._update_id)
        return await self._client.update_with_start(self._entity.bind(self.key), bound, id=self.id)

    async def query(self, method: QueryMethod[E, P, U], /, *args: P.args, **kwargs: P.kwargs) -> U:
        """Ask the entity: `cart.query(Cart.total)`; nothing is recorded.

        It sees the state as the last finished update left it; that of an entity nobody has sent
        anything yet is made of the defaults. Raises `QueryFailed`.
        """
        known = self._known(method, self._entity.queries, "query")
        call = known.signature.decode(known.signature.encode(args, kwargs))
        try:
            found: U = await self._run.query(known.talk, call)
        except RunNotFound:
            found = self._answer_afresh(known, call)
        return found

    def options(self, *, id: str) -> EntityHandle[E]:
        """Return this entity with an id for the next update: one that is repeated counts once."""
        return EntityHandle(self._client, self._run, self._entity, self.key, id)

    def _answer_afresh(self, method: Any, call: Any) -> Any:
        schema: Schema[Any] = Schema.of(self._entity.cls)
        kept = schema.encode(self._entity.fresh(self.key), where="state")
        try:
            return look(schema, kept, method, call)
        except Exception as error:
            told = failure_of(error)
            raise QueryFailed(
                run=self.id,
                query=method.name,
                problem=f"{told.type}: {told.message}",
                traceback=told.traceback,
            ) from error

    def _known(self, method: Any, known: Any, kind: str) -> Any:
        """Return a method of this entity. Raises `BadDefinition`."""
        if isinstance(method, Method) and known.get(cast("Any", method).name) is method:
            return cast("Any", method)
        owner = self._entity.cls.__name__
        listed = ", ".join(f"{owner}.{name}" for name in known) or "none"
        raise BadDefinition(
            what=f"{method!r:.60} is no {kind} of entity {self._entity.name!r}",
            hint=f"Give one of its methods, not a call of it. There are: {listed}.",
        )
