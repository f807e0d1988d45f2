"""Where a graph may go from a node: plain edges, edges with a condition, and routers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

START = "START"
"""Where a graph begins: `add_edge(START, first)`."""
END = "END"
"""Where a graph ends: `add_edge(last, END)`."""
PLACES = (START, END)

Predicate = Callable[[Any], bool]
Router = Callable[[Any], Any]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Edge:
    """One way out of a node. Without a predicate it is always taken."""

    source: str
    target: str
    predicate: Predicate | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """Ways out of a node between which a function chooses, by the keys of `targets`."""

    source: str
    router: Router
    targets: Mapping[Any, str]
    name: str


@dataclass(frozen=True, slots=True)
class Fork:
    """Branches that go on side by side from a node, each with a state of its own, to a join."""

    source: str
    branches: tuple[str, ...]
    join: str
    rules: Mapping[str, Rule]


Rule = Callable[[Any, Sequence[Any]], Any]
"""Merges what several branches made of one field: the value before, and theirs in order."""


def value_in(state: Any, key: str) -> Any:
    """Return what a state holds under a key or in a field of that name, or a mark of none."""
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key, _MISSING)
    return getattr(state, key, _MISSING)


def _named(name: str, predicate: Predicate) -> Predicate:
    predicate.__name__ = predicate.__qualname__ = name
    return predicate


def always() -> Predicate:
    """Return a predicate that always holds."""
    return _named("always", lambda state: True)


def key_exists(key: str) -> Predicate:
    """Return a predicate that holds if the state has that key, even with None."""
    return _named(f"key_exists({key})", lambda state: value_in(state, key) is not _MISSING)


def key_equals(key: str, value: Any) -> Predicate:
    """Return a predicate that holds if the state has that key with this value."""
    return _named(f"key_equals({key}, {value!r:.40})", lambda state: _equals(state, key, value))


def not_(predicate: Predicate) -> Predicate:
    """Return a predicate that holds if that one does not."""
    return _named(f"not_({name_of(predicate)})", lambda state: not predicate(state))


def and_(*predicates: Predicate) -> Predicate:
    """Return a predicate that holds if all of them do; of none of them, it does."""
    listed = ", ".join(map(name_of, predicates))
    return _named(f"and_({listed})", lambda state: all(each(state) for each in predicates))


def or_(*predicates: Predicate) -> Predicate:
    """Return a predicate that holds if one of them does; of none of them, it does not."""
    listed = ", ".join(map(name_of, predicates))
    return _named(f"or_({listed})", lambda state: any(each(state) for each in predicates))


def name_of(function: Callable[..., Any]) -> str:
    """Return how a predicate or a router is called in pictures and records."""
    return getattr(function, "__name__", type(function).__name__)


def _equals(state: Any, key: str, value: Any) -> bool:
    found = value_in(state, key)
    try:
        return found is not _MISSING and bool(found == value)
    except Exception:
        return False
