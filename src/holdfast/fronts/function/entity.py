"""Entities: one long-lived run for each key, with a state that its methods read and change.

    @app.entity
    @dataclass
    class Cart:
        items: dict[str, int] = field(default_factory=dict)

        @hf.update
        async def add(self, item: str, n: int = 1) -> int: ...

        @hf.query
        def total(self) -> int: ...

An entity is a workflow whose body is written here (`keeping.py`). What its class says is checked
when it is registered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from inspect import getattr_static, isasyncgenfunction, iscoroutinefunction
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from holdfast.errors import BadDefinition
from holdfast.fronts.function.keeping import KEY, Keeper
from holdfast.fronts.function.methods import Method, QueryMethod, UpdateMethod
from holdfast.fronts.function.naming import check_name, described
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.model.checks import checked_id
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


def update(
    function: Callable[Concatenate[E, P], Coroutine[Any, Any, R]], /
) -> UpdateMethod[E, P, R]:
    """Mark an async method of an entity that others may have carried out: it may change the state.

    It may call steps, sleep and wait. One runs at a time; its result goes to the caller. If it
    raises, the caller gets `UpdateFailed`, and the state is what it was before.
    """
    if not iscoroutinefunction(function):
        raise BadDefinition(
            what=f"{described(function)} is no `async def`",
            hint="Write `async def`; a method that only looks is marked with @hf.query.",
        )
    return UpdateMethod(function)


def query(function: Callable[Concatenate[E, P], R], /) -> QueryMethod[E, P, R]:
    """Mark a plain method of an entity that others may ask: it looks at the state.

    It sees the state as the last finished update left it. If it changes that, the caller gets
    `QueryFailed`.
    """
    is_async = iscoroutinefunction(function) or isasyncgenfunction(function)
    if not isinstance(function, FunctionType) or is_async:
        raise BadDefinition(
            what=f"{described(function)} is no plain `def`",
            hint="Make it a plain `def`: it looks at the state and waits for nothing.",
        )
    return QueryMethod(function)


class Entity(Generic[E]):
    """An entity of an app: its class, its methods, and the workflow that keeps one of a key."""

    def __init__(
        self,
        cls: type[E],
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
        continue_after: int | None = None,
    ) -> None:
        self.cls = cls
        self.name = check_name(cls.__name__ if name is None else name, "Entity name")
        self.continue_after = continue_after
        self._fields = _checked_fields(cls)
        methods = _methods_of(cls)
        self.updates = {m.name: m for m in methods if isinstance(m, UpdateMethod)}
        self.queries = {m.name: m for m in methods if isinstance(m, QueryMethod)}
        if not methods:
            raise BadDefinition(
                what=f"Entity {self.name!r} has no methods that others can call",
                hint="Mark some with @hf.update and @hf.query.",
            )
        self.workflow: EntityWorkflow[E] = EntityWorkflow(self, queue=queue, priority=priority)

    def __repr__(self) -> str:
        return f"<entity {self.name}>"

    def bind(self, key: str) -> Bound[E]:
        """Return the workflow that keeps the entity of this key, for tests that start it."""
        return self.workflow.bind(key, None)

    def id_of(self, key: str) -> str:
        """Return the id of the run that keeps the entity of this key. Raises `InvalidName`."""
        return checked_id(f"{self.name}:{checked_id(key, field='entity key')}")

    def fresh(self, key: str) -> E:
        """Return the state an entity begins with: the defaults of its class."""
        made: E = self.cls(**({KEY: key} if KEY in self._fields else {}))
        return made


class EntityWorkflow(Workflow[[str, Any], E]):
    """The workflow of an entity. Its code is that of the methods."""

    def __init__(self, entity: Entity[E], *, queue: str, priority: int) -> None:
        cls: Any = entity.cls

        async def body(key: str, state: Any = None) -> Any:
            return await Keeper(entity, key, state).live()

        body.__name__, body.__qualname__ = cls.__name__, cls.__qualname__
        body.__module__, body.__doc__ = cls.__module__, cls.__doc__
        body.__annotations__ = {"key": str, "state": cls | None, "return": cls}
        self.entity = entity
        super().__init__(body, name=entity.name, queue=queue, priority=priority)

    @property
    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The functions that a run of it depends on."""
        entity = self.entity
        checks = [m.check for m in entity.updates.values() if m.check is not None]
        methods = [m.function for m in (*entity.updates.values(), *entity.queries.values())]
        return (*methods, *checks)


class EntityDecorator(Protocol):
    """What `@app.entity(...)` puts on a class."""

    def __call__(self, cls: type[E], /) -> type[E]: ...


def _checked_fields(cls: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of the state. Raises `BadDefinition`."""
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise BadDefinition(
            what=f"{described(cast('object', cls))} is no dataclass, and so no entity",
            hint="Write @dataclass between @app.entity and the class: its fields are the state.",
        )
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for field in fields.values():
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if field.name != KEY and not has_default:
            raise BadDefinition(
                what=f"Field {field.name!r} of entity {cls.__name__!r} has no default",
                hint="An entity begins with its first message: give every field but `key` one.",
            )
    return fields


def _methods_of(cls: type[Any]) -> list[Method[Any, ..., Any]]:
    """Return the marked methods, those of base classes first."""
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    found = (getattr_static(cls, name) for name in names)
    return [method for method in found if isinstance(method, Method)]
