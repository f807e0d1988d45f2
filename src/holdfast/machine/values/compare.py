"""The type-aware comparison of a value with what came back for it.

Equal is not enough: `1 == True`, `Color.RED == "red"` for a str Enum, and a subclass may equal its
base. Both sides must have the same type all the way down. One exception: an int where a float is
annotated comes back as the same number.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import datetime, time
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from holdfast.machine.values.walk import (
    MISSING,
    field_names,
    has_fields,
    is_model,
    item_step,
    key_step,
    unlisted,
)


class Difference(NamedTuple):
    """The first place where the two sides part: its path and both sides there."""

    steps: str
    sent: Any
    back: Any


Comparer = Callable[[Any, Any], Difference | None]

_REMEMBERED = 4096
_comparers: dict[type, Comparer] = {}


def difference(sent: object, back: object) -> Difference | None:
    """Return the first difference, or None when `back` is as good as `sent`."""
    cls = type(sent)
    if cls is type(back):
        return (_comparers.get(cls) or _comparer(cls))(sent, back)
    if cls is int and type(back) is float and sent == back:
        return None
    return Difference("", sent, back)


def _comparer(cls: type) -> Comparer:
    if len(_comparers) >= _REMEMBERED:  # classes made on the fly must not pile up
        _comparers.clear()
    _comparers[cls] = comparer = _choose(cls)
    return comparer


def _choose(cls: type) -> Comparer:
    if has_fields(cls):
        return partial(_model if is_model(cls) else _fields, field_names(cls))
    for kind, comparer in _BY_KIND.items():
        if issubclass(cls, kind):
            return comparer
    return _equal


def _equal(sent: Any, back: Any) -> Difference | None:
    return None if sent is back or sent == back else Difference("", sent, back)


def _float(sent: float, back: float) -> Difference | None:
    same = math.isfinite(sent) and sent == back and math.copysign(1, sent) == math.copysign(1, back)
    return None if same else Difference("", sent, back)


def _decimal(sent: Decimal, back: Decimal) -> Difference | None:
    # 1.0 and 1.00 are equal, but print and round differently.
    same = sent.is_finite() and sent.as_tuple() == back.as_tuple()
    return None if same else Difference("", sent, back)


def _clock(sent: Any, back: Any) -> Difference | None:
    # A zone comes back as its offset. Python calls times of two zones unequal in the hour that is
    # repeated in autumn, so the fields and the offset are compared instead.
    offset = sent.utcoffset()
    same = offset == back.utcoffset() and (offset is not None or sent.fold == back.fold)
    same = same and (sent.tzinfo is None) == (back.tzinfo is None)
    plain = {"tzinfo": None, "fold": 0}
    if same and sent.replace(**plain) == back.replace(**plain):
        return None
    return Difference("", sent, back)


def _sequence(sent: Any, back: Any) -> Difference | None:
    if len(sent) != len(back):
        return Difference("", sent, back)
    for index, (one, other) in enumerate(zip(sent, back, strict=True)):
        found = difference(one, other)
        if found is not None:
            return found._replace(steps=item_step(sent, index) + found.steps)
    return None


def _deque(sent: Any, back: Any) -> Difference | None:
    return _sequence(sent, back) if sent.maxlen == back.maxlen else Difference("", sent, back)


def _set(sent: Any, back: Any) -> Difference | None:
    if len(sent) != len(back):
        return Difference("", sent, back)
    twins = {item: item for item in back}
    for item in sent:
        found = difference(item, twins.get(item, MISSING))
        if found is not None:
            return _within(found, "{item}", sent, back)
    return None


def _mapping(sent: Any, back: Any) -> Difference | None:
    if len(sent) != len(back):
        return Difference("", sent, back)
    twins = {key: key for key in back}
    for key, item in sent.items():
        found = difference(key, twins.get(key, MISSING))
        if found is not None:
            return _within(found, "{key}", sent, back)
        found = difference(item, back[key])
        if found is not None:
            return found._replace(steps=key_step(key) + found.steps)
    return None


def _defaulting(sent: Any, back: Any) -> Difference | None:
    is_same = sent.default_factory is back.default_factory
    return _mapping(sent, back) if is_same else Difference("", sent, back)


def _within(found: Difference, step: str, sent: Any, back: Any) -> Difference:
    """Report a lost key or set item at its container: it has no counterpart to compare with."""
    if found.back is MISSING:
        return Difference("", sent, back)
    return found._replace(steps=step + found.steps)


def _fields(names: tuple[str, ...], sent: Any, back: Any) -> Difference | None:
    for name in names:
        found = difference(getattr(sent, name, MISSING), getattr(back, name, MISSING))
        if found is not None:
            return found._replace(steps=f".{name}{found.steps}")
    return None


def _model(names: tuple[str, ...], sent: Any, back: Any) -> Difference | None:
    found = _fields(names, sent, back)
    if found is not None:
        return found
    if sent.__pydantic_extra__ or sent.__pydantic_private__ or back.__pydantic_private__:
        return _mapping(unlisted(sent), unlisted(back))
    return None


_BY_KIND: Mapping[type, Comparer] = {
    float: _float,
    Decimal: _decimal,
    datetime: _clock,
    time: _clock,
    list: _sequence,
    tuple: _sequence,
    deque: _deque,
    set: _set,
    frozenset: _set,
    defaultdict: _defaulting,
    Mapping: _mapping,
}
