"""What to write next, for a value that would not come back as it is."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Coroutine, Iterable
from datetime import time
from typing import Any

from holdfast.machine.values.compare import Difference
from holdfast.machine.values.core import core_of
from holdfast.machine.values.limits import Problem
from holdfast.machine.values.walk import MISSING, is_kind, is_model

_DETAIL = 3  # an annotation of more levels is better read from the user's own classes


def name_of(value: Any) -> str:
    """Return the name of a value's type as a person would write it."""
    if value is MISSING:
        return "nothing"
    return "None" if value is None else type(value).__qualname__


def annotation_for(value: Any, detail: int = _DETAIL) -> str:
    """Return an annotation under which this value keeps its type."""
    name = name_of(value)
    if not _is_container(value) or detail == 0 or not value:
        return name
    if name == "tuple" and len(value) <= 4:
        return f"tuple[{', '.join(annotation_for(item, detail - 1) for item in value)}]"
    if name == "tuple":
        return f"tuple[{_either(value, detail)}, ...]"
    if name == "dict":
        return f"dict[{_either(value, detail)}, {_either(value.values(), detail)}]"
    return f"{name}[{_either(value, detail)}]"


def _is_container(value: object) -> bool:
    return type(value) in (tuple, list, set, frozenset, dict)


def _either(items: Iterable[Any], detail: int) -> str:
    return " | ".join(sorted({annotation_for(item, detail - 1) for item in items}))


def explain(found: Difference, *, in_union: bool) -> Problem:
    """Return what is lost and the annotation that would keep it."""
    sent, back = found.sent, found.back
    if type(sent) is type(back):
        return _same_type(found)
    if not _is_storable(sent):
        return unknown(found.steps, sent)
    hint = f"Write `{annotation_for(sent)}` as its annotation."
    if sent is MISSING:
        hint = "Let the class give this attribute only one value, or make it a field."
    elif isinstance(sent, type(back)) and not isinstance(sent, (int, str, list, dict, tuple)):
        hint = f"{hint} For several classes name them all: `{name_of(sent)} | ...`."
    elif in_union:
        hint = (
            f"{hint} Or, if its union has members that look the same in JSON, "
            f"give each a class with a Literal tag of its own."
        )
    return Problem(found.steps, name_of(sent), name_of(back), hint)


def _same_type(found: Difference) -> Problem:
    sent, back, name = found.sent, found.back, name_of(found.sent)
    if is_kind(sent, defaultdict) and sent.default_factory is not back.default_factory:
        made = getattr(back.default_factory, "__name__", "another")
        hint = "What makes its defaults is no part of JSON: send `dict(...)`, annotated as dict."
        told = f"{name} with another default_factory"
        return Problem(found.steps, told, f"{name} with {made}", hint)
    if is_kind(sent, deque) and sent.maxlen != back.maxlen:
        hint = "How long it may become is no part of JSON: send `list(...)`, annotated as list."
        told = f"{name} with maxlen={sent.maxlen}"
        return Problem(found.steps, told, f"{name} with maxlen={back.maxlen}", hint)
    if is_kind(sent, time) and sent.tzinfo is not None and back.tzinfo is None:
        hint = "Without a date this zone has no offset: send a datetime, or the zone's name too."
        told = f"{name} with a zone that has no offset"
        return Problem(found.steps, told, f"{name} without a zone", hint)
    if is_kind(sent, dict):
        keys = sorted({name_of(key) for key in sent})
        hint = f"Write `{annotation_for(sent)}` as its annotation."
        hint = hint if len(keys) == 1 else "Use keys of one type, or send a list of pairs."
        return Problem(found.steps, f"dict with {' and '.join(keys)} keys", "other keys", hint)
    if getattr(sent, "fold", 0):
        hint = "Without a zone the second of two equal hours (fold=1) is lost: give it a tzinfo."
        return Problem(found.steps, f"{name} with fold=1", f"{name} with fold=0", hint)
    if is_model(type(sent)) or _can_be_equal(sent):
        hint = (
            "Its JSON does not hold the whole value: look for a secret, an excluded or private "
            "field, a validator or a serialiser that changes it, and send a plain field instead."
        )
        return Problem(found.steps, name, f"another {name}", hint)
    hint = f"{name} has no __eq__, so nobody can tell. Make it a dataclass or a pydantic model."
    return Problem(found.steps, name, f"another {name}", hint)


def _is_storable(value: object) -> bool:
    from pydantic.errors import PydanticUserError

    try:
        core_of(type(value))
    except PydanticUserError:
        return value is MISSING
    return True


def _can_be_equal(value: object) -> bool:
    return any("__eq__" in vars(base) for base in type(value).__mro__[:-1])


def unknown(steps: str, value: Any) -> Problem:
    """Return the problem of an object no annotation can store."""
    hint = (
        "Send JSON natives, a dataclass, a pydantic model, a TypedDict or a NamedTuple, "
        "and annotate it; open files, connections and locks stay where they are."
    )
    if isinstance(value, Coroutine):
        hint = (
            "It is a call that nobody awaited: write `await` before it, or `asyncio.gather(...)`."
        )
    return Problem(steps, name_of(value), "nothing: it has no JSON form", hint)


def bad_key(steps: str, value: Any) -> Problem:
    """Return the problem of a dict whose keys cannot be read back from text."""
    hint = "Keys are text in JSON: use str, int, UUID, date or str Enum keys, or a list of pairs."
    return Problem(steps, annotation_for(value), "an error (its keys cannot be read back)", hint)


def misfit(steps: str, value: Any, problem: str) -> Problem:
    """Return the problem of a value its own annotation does not accept."""
    hint = f"Send what is annotated, or write `{annotation_for(value)}` as its annotation."
    return Problem(steps, name_of(value), f"an error ({problem})", hint)
