"""The state of a graph that names no type of its own: an immutable map, and secrets beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

# pydantic takes no other TypedDict before Python 3.12.
from typing_extensions import TypedDict

from holdfast.errors import NotInStep
from holdfast.fronts.graph.exposing import warn_of_exposed
from holdfast.model.checks import checked_id
from holdfast.model.executed import ExecutionEvent
from holdfast.model.secrets import Secret, checked_secret_name

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

log = logging.getLogger("holdfast.observers")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Mapping[str, Any] = MappingProxyType({})

OnEvent = Callable[[ExecutionEvent], object]


class Mark(TypedDict, total=False):
    """What a node is told of its state besides the values; the names of secrets, not more."""

    node: str
    at: int
    secrets: list[str]


class State(Mapping[str, Any]):
    """An immutable map: every change gives a new one, and leaves this one as it is.

    Its values are what JSON can tell apart: texts, numbers, booleans, None, lists and dicts. Its
    secrets are no part of the map: they are not shown, stored or compared. Give it a `run_id` to
    choose the id of its run.

    `on_event` is called at once with what is done to it and to the states that come of it:
    `state.create`, `state.clone`, `state.set`, `state.merge`. It is no part of the map either; the
    states that nodes are given have none (`telling`).
    """

    __slots__ = ("_at", "_data", "_forgotten", "_node", "_on_event", "_run", "_secrets")

    def __init__(
        self,
        data: Mapping[str, Any] = NOTHING,
        *,
        run_id: str = "",
        on_event: OnEvent | None = None,
    ) -> None:
        warn_of_exposed(data, "State(...)")
        self._data = dict(data)
        self._run = checked_id(run_id) if run_id else ""
        self._node, self._at = "", 0
        self._secrets: Mapping[str, Secret | None] = NOTHING
        self._forgotten: tuple[str, ...] = ()
        self._on_event = on_event
        self._tell("create")

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, State) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State({self._data!r})"

    @property
    def run_id(self) -> str:
        """The run that it is the state of; empty if it belongs to none."""
        return self._run

    @property
    def checkpoint_node(self) -> str:
        """The node that was done last; empty before the first."""
        return self._node

    @property
    def timestamp(self) -> datetime | None:
        """When that node was recorded, or the run began; None if it belongs to no run."""
        return EPOCH + timedelta(microseconds=self._at) if self._at else None

    def set(self, key: str, value: Any) -> State:
        """Return a state in which `key` has this value; warns if that sounds like a secret."""
        warn_of_exposed({key: value}, "state.set")
        made = self._cloned({**self._data, key: value})
        made._tell("set", key=key)
        return made

    def merge(self, other: Mapping[str, Any]) -> State:
        """Return a state with the values of both; where both have one, that of `other`.

        Its run, its place and its secrets are those of this one. Warns as `set` does.
        """
        warn_of_exposed(other, "state.merge")
        made = self._cloned({**self._data, **other})
        made._tell("merge", keys=len(other))
        return made

    def without(self, *keys: str) -> State:
        """Return a state that has none of these keys."""
        return self._cloned({key: value for key, value in self._data.items() if key not in keys})

    def clone(self) -> State:
        """Return a state of the same values."""
        return self._cloned(dict(self._data))

    def telling(self, on_event: OnEvent | None) -> State:
        """Return a state of which, and of those that come of it, `on_event` hears."""
        made = self._with(self._data)
        made._on_event = on_event
        return made

    # --- secrets

    def set_secret(self, name: str, value: str | Secret) -> State:
        """Return a state with a secret, for the nodes of its run; give it before the run starts.

        Raises `InvalidName`, or `InvalidValue` for what is no text.
        """
        secret = value if isinstance(value, Secret) else Secret(value)
        self._tell("clone", keys=len(self))
        return self.holding({**self._secrets, checked_secret_name(name): secret})

    def get_secret(self, name: str) -> Secret | None:
        """Return a secret of this state; `reveal()` gives its text. None if there is none.

        Raises `NotInStep` where the run has it and the code may not: in routers, predicates and
        nodes with `body=True`.
        """
        found = self._secrets.get(name)
        if found is None and name in self._secrets:
            raise NotInStep(call=f"state.get_secret({name!r})")
        return found

    def delete_secret(self, name: str) -> State:
        """Return a state without that secret: nodes that come later do not get it."""
        kept = {key: secret for key, secret in self._secrets.items() if key != name}
        self._tell("clone", keys=len(self))
        made = self.holding(kept)
        made._forgotten = tuple(dict.fromkeys((*self._forgotten, name)))
        return made

    # --- for the engine

    @property
    def secrets(self) -> Mapping[str, Secret | None]:
        """Its secrets by name; None for those that the code at this place may not see."""
        return MappingProxyType(dict(self._secrets))

    @property
    def forgotten(self) -> tuple[str, ...]:
        """The names of the secrets that were deleted."""
        return self._forgotten

    def holding(self, secrets: Mapping[str, Secret | None]) -> State:
        """Return a state with these secrets and no others."""
        made = self._with(self._data)
        made._secrets = dict(secrets)
        made._forgotten = tuple(name for name in self._forgotten if name not in secrets)
        return made

    def updated(self, new: Mapping[str, Any], gone: Sequence[str] = ()) -> State:
        """Return a state with these changes, which were looked at before."""
        made = self._with({**self._data, **(new._data if isinstance(new, State) else new)})
        for key in gone:
            made._data.pop(key, None)
        return made

    def placed(self, run: str, node: str, at: int) -> State:
        """Return a state of that run, which has come from `node`."""
        made = self._with(self._data)
        made._run, made._node, made._at = run, node, at
        return made

    def _with(self, data: dict[str, Any]) -> State:
        made = State.__new__(State)
        made._data = data
        made._run, made._node, made._at = self._run, self._node, self._at
        made._secrets, made._forgotten = self._secrets, self._forgotten
        made._on_event = self._on_event
        return made

    def _cloned(self, data: dict[str, Any]) -> State:
        self._tell("clone", keys=len(self))
        return self._with(data)

    def _tell(self, what: str, **data: object) -> None:
        if self._on_event is None:
            return
        try:
            now = datetime.now(UTC)  # noqa: TID251 - told in this process only, decides nothing
            self._on_event(ExecutionEvent(f"state.{what}", now, "state", data, self._run, 0))
        except Exception:
            log.exception("on_event of a state failed")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            cls()._with,
            handler.generate_schema(dict[str, Any]),
            serialization=core_schema.plain_serializer_function_ser_schema(dict),
        )


def mark_of(state: State) -> Mark:
    """Return what the next node is told of a state besides its values."""
    at = 0 if state.timestamp is None else (state.timestamp - EPOCH) // timedelta(microseconds=1)
    return {"node": state.checkpoint_node, "at": at, "secrets": [*state.secrets]}
