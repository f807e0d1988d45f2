"""The type of a graph's state: what its fields are, how it is changed, and what a node changed.

A node returns a whole state or only some fields of it. Either way only the difference is stored.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any, cast

# pydantic takes no other TypedDict before Python 3.12.
from typing_extensions import TypedDict, is_typeddict

from holdfast.errors import BadDefinition, NonRetryable
from holdfast.fronts.graph.state import State
from holdfast.machine.values.schema import Schema
from holdfast.machine.values.walk import is_model

Delta = Mapping[str, Any]
"""What a node changed: `set` has fields with their new values, `unset` names what it took out.

`forget` names the secrets that it deleted; only an `hf.State` has some.
"""

IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None)})
NO_VALUES: Mapping[str, Any] = {}
NO_CHANGE: Delta = {}
_MISSING = object()


class Shape:
    """How the states of one type are read and changed."""

    def __init__(
        self, cls: Any, names: Mapping[str, Any] | None = None, *, is_strict: bool = False
    ) -> None:
        self.cls, self.is_strict = cls, is_strict
        self._is_dict, self._is_model = is_typeddict(cls), is_model(cls)
        self.is_placed = cls is State
        """Whether a state knows where its run is."""
        self.fields = _fields_of(cls, names or {})
        self.delta = _delta_type(self.fields)
        self._schema: Schema[Any] = Schema.of(cls)
        self._changes: Schema[Any] = Schema.of(self.delta)

    def values(self, state: Any) -> dict[str, Any]:
        """Return the fields of a state with their values."""
        if self._is_dict or isinstance(state, Mapping):
            return dict(cast("Mapping[str, Any]", state))
        return {name: getattr(state, name) for name in self.fields or ()}

    def changed(self, state: Any, delta: Delta) -> Any:
        """Return the state with these changes."""
        if self._is_dict and len(delta) == 1 and "set" in delta:
            return {**state, **delta["set"]}
        new, gone = delta.get("set", NO_VALUES), delta.get("unset", ())
        for name in delta.get("forget", ()):
            state = state.delete_secret(name)
        if not new and not gone:
            return state
        if self.cls is State:
            return state.updated(new, gone)
        if self._is_dict:
            after = {**state, **new}
            return {k: v for k, v in after.items() if k not in gone} if gone else after
        if self._is_model:
            return state.model_copy(update=new)
        return dataclasses.replace(state, **new)

    def told(self, state: Any) -> bytes:
        """Return a state as it is stored."""
        return self._schema.written(state)

    def told_change(self, delta: Delta) -> bytes:
        """Return changes as they are stored."""
        return self._changes.written(delta)

    def change_in(self, told: bytes) -> Delta:
        """Return changes of which this was stored. Raises `InvalidValue`."""
        read: Delta = self._changes.decode(told, where="change of a state")
        return read

    def crossed(self, delta: Delta) -> Delta:
        """Return changes as they come back from where they are stored. Raises as steps do."""
        crossed: Delta = self._changes.cross(delta, where="result of the node")[1]
        return crossed

    def told_crossed(self, delta: Delta, where: str) -> bytes:
        """Return changes as they are stored, sure to come back the same. Raises as steps do."""
        return self._changes.encode(delta, where=where)

    def lent(self, state: Any) -> Any:
        """Return a carried state for a node, which may change what is in it."""
        if self._is_dict:
            return fresh(state)
        values = self.values(state).items()
        own = {k: fresh(v) for k, v in values if type(v) not in IMMUTABLE}
        if self._is_model:
            return state.model_copy(update=own)
        return self.changed(state, {"set": own})

    def copied(self, state: Any) -> Any:
        """Return the state for code that may change what is in it."""
        copied = self._schema.cross(state, where="state of the graph")[1]
        return state.updated(copied) if self.cls is State else copied

    def entered(self, state: Any, run: str, at: int, secrets: Sequence[str]) -> Any:
        """Return the state with which a run begins; what its secrets are, a body never knows."""
        if self.cls is not State:
            return state
        return state.placed(run, "", at).holding(dict.fromkeys(secrets))

    def passed(self, state: State, node: str, at: int) -> State:
        """Return the state of a run that has come from `node`, of one that knows such things."""
        return state.placed(state.run_id, node, at)

    def joined(self, state: Any, branches: Sequence[Any]) -> Any:
        """Return the state after a fork, without the secrets that a branch has deleted."""
        if self.cls is State:
            for name in dict.fromkeys(name for each in branches for name in each.forgotten):
                state = state.delete_secret(name)
        return state

    def before(self, state: Any) -> dict[str, Any]:
        """Return what to compare a node's result with: its copy of what it might change."""
        return cast("dict[str, Any]", fresh(self.values(state)))

    def difference(self, before: Mapping[str, Any], result: Any, node: str) -> Delta:
        """Return what a node changed, by what it returned. Raises `NonRetryable`."""
        if result is None:
            return NO_CHANGE
        if not self._is_dict and isinstance(result, self.cls):
            # A TypedDict is a dict: what a node leaves out of it stays as it is.
            after = self.values(result)
            gone = [name for name in before if name not in after]
            delta = _delta(_new(before, after), gone)
            forgotten = result.forgotten if self.cls is State else ()
            return {**delta, "forget": [*forgotten]} if forgotten else delta
        if type(result) is dict or isinstance(result, Mapping):
            partial = cast("Mapping[str, Any]", result)
            if self.fields is not None and not partial.keys() <= self.fields.keys():
                unknown = next(k for k in partial if k not in self.fields)
                raise NonRetryable(_unknown(node, unknown, self.fields, self.cls))
            return _delta(_new(before, partial), ())
        raise NonRetryable(
            f"Node {node!r} returned a value of type {type(result).__name__}. "
            f"Return a {self.cls.__name__}, or a dict of the fields that change."
        )

    def between(self, before: Any, after: Any) -> Delta:
        """Return what leads from one state to another."""
        old, new = self.values(before), self.values(after)
        return _delta(_new(old, new), [name for name in old if name not in new])


def fresh(value: Any) -> Any:
    """Return a copy of a value that crosses, and so is a tree: what is in it may be changed."""
    kind: type[object] = value.__class__
    if kind in IMMUTABLE:
        return value
    if kind is dict:
        return {k: v if type(v) in IMMUTABLE else fresh(v) for k, v in value.items()}
    if kind is list:
        return [v if type(v) in IMMUTABLE else fresh(v) for v in value]
    return copy.deepcopy(value)


def _delta_type(fields: Mapping[str, Any] | None) -> Any:
    """Return the type of what nodes change: some of the fields, each as it is annotated."""
    made: Any = TypedDict
    changes = dict[str, Any] if fields is None else made("Changes", fields, total=False)
    more = {"forget": list[str]} if fields is None else {}
    return made("Delta", {"set": changes, "unset": list[str], **more}, total=False)


def _delta(new: dict[str, Any], gone: Sequence[str]) -> Delta:
    delta: dict[str, Any] = {"set": new} if new else {}
    if gone:
        delta["unset"] = [*gone]
    return delta


def _new(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    old = before.get
    return {
        k: v
        for k, v in after.items()
        if (was := old(k, _MISSING)) is _MISSING or type(v) is not type(was) or not was == v  # noqa: SIM201 - as a user's class defines it
    }


def _unknown(node: str, field: str, fields: Mapping[str, Any], cls: Any) -> str:
    listed = ", ".join(fields)
    return f"Node {node!r} returned {field!r}, which is no field of {cls.__name__}: {listed}."


def _fields_of(cls: Any, names: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a type and their annotations; None of a map. Raises `BadDefinition`."""
    if cls is State:
        return None
    if is_model(cls):
        return {name: field.annotation for name, field in cls.__pydantic_fields__.items()}
    is_frozen = dataclasses.is_dataclass(cls) and getattr(cls, "__dataclass_params__").frozen  # noqa: B009
    if isinstance(cls, type) and (is_frozen or is_typeddict(cls)):
        hints = typing.get_type_hints(cls, localns=dict(names), include_extras=True)
        if is_typeddict(cls):
            return hints
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    named: str = getattr(cast("object", cls), "__name__", f"{cls!r:.60}")
    problem = (
        "is a dataclass that is not frozen" if dataclasses.is_dataclass(cls) else "is no state"
    )
    raise BadDefinition(
        what=f"{named} {problem}",
        hint="Give a frozen dataclass, a pydantic model, a TypedDict or hf.State.",
    )
