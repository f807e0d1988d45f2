"""What becomes of a field that several branches of a fork have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from holdfast.errors import BadDefinition, MergeConflict
from holdfast.fronts.graph.edges import Rule

RuleName = Literal["append", "union", "total", "first", "last"]


class Branch(NamedTuple):
    """How far a branch came: its values, and which node wrote each field last."""

    values: Mapping[str, Any]
    writers: Mapping[str, str]


def merged(
    base: Mapping[str, Any], branches: Sequence[Branch], rules: Mapping[str, Rule]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields that the branches changed, and their writers. Raises `MergeConflict`.

    In the order in which the branches were declared, never in that in which they ended.
    """
    update: dict[str, Any] = {}
    writers: dict[str, str] = {}
    for field in dict.fromkeys(field for branch in branches for field in branch.writers):
        wrote = [branch for branch in branches if field in branch.writers]
        values = [branch.values.get(field) for branch in wrote]
        if len(wrote) == 1:
            update[field] = values[0]
        elif field in rules:
            update[field] = rules[field](base.get(field), values)
        else:
            first, second = (branch.writers[field] for branch in wrote[:2])
            raise MergeConflict(field=field, first=first, second=second)
        writers[field] = wrote[-1].writers[field]
    return update, writers


def _append(base: Any, values: Sequence[Any]) -> list[Any]:
    """Merge lists: what was there before the fork, then what each branch added, in order."""
    known = list(base or ())
    added = [list(value)[len(known) :] for value in values if value is not None]
    return [*known, *(item for items in added for item in items)]


def _union(base: Any, values: Sequence[Any]) -> dict[Any, Any]:
    """Merge dicts: the keys of all of them; of one key, the value of the last branch."""
    found: dict[Any, Any] = dict(base or {})
    for value in values:
        found.update(value or {})
    return found


def _total(base: Any, values: Sequence[Any]) -> Any:
    """Merge numbers: what was there before the fork, and what each branch added to it."""
    return (base or 0) + sum(value - (base or 0) for value in values)


def _last(base: Any, values: Sequence[Any]) -> Any:
    """Merge by taking the value of the branch that was declared last."""
    return values[-1]


def _first(base: Any, values: Sequence[Any]) -> Any:
    """Merge by taking the value of the branch that was declared first."""
    return values[0]


RULES: Mapping[str, Rule] = {
    "append": _append, "union": _union, "total": _total, "first": _first, "last": _last,
}  # fmt: skip


def rule_of(field: str, given: Rule | RuleName) -> Rule:
    """Return the rule that merges a field. Raises `BadDefinition`."""
    found = RULES.get(given) if isinstance(given, str) else given
    if callable(found):
        return found
    raise BadDefinition(
        what=f"The merge rule of {field!r} is {given!r:.60}",
        hint=f"Give one of {', '.join(RULES)}, or a function of the value before and theirs.",
    )
