"""Tags and attributes: what a caller says of a run so that it can be found again.

They are no part of the run's identity: a second start with the same id and other ones finds the
run as it is. The body never sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.errors import InvalidTag

Value = str | int | float | bool
"""What an attribute may be."""

MOST = 32
LONGEST = 256
LARGEST = 2**63 - 1
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
KEYS = ("status", "workflow", "queue", "tag", "since", "before", "id", "reason")
"""The keys of the filter language: no attribute can have such a name."""


class Labels(NamedTuple):
    """The tags and attributes of one run, sorted."""

    tags: tuple[str, ...] = ()
    attributes: Mapping[str, Value] = {}


NO_LABELS = Labels()


class Label(NamedTuple):
    """One of them as a store keeps it. A tag has no name; `value` is what filters compare."""

    name: str
    kind: str
    value: str | int | float


def checked_labels(tags: Iterable[str], attributes: Mapping[str, Value]) -> Labels:
    """Return the labels if they can be stored. Raises `InvalidTag`."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidTag(field="tags", value=tags, problem="is no list", hint='Write ["vip"].')
    if not isinstance(attributes, Mapping):
        raise InvalidTag(
            field="attributes", value=attributes, problem="is no mapping",
            hint='Write {"customer": "42"}.',
        )  # fmt: skip
    listed = list(tags)
    _check_count("tags", len(listed))
    _check_count("attributes", len(attributes))
    for tag in listed:
        _check_text("tag", tag)
    for name, value in attributes.items():
        _check_name(name)
        _check_value(name, value)
    if not listed and not attributes:
        return NO_LABELS
    return Labels(tuple(sorted(set(listed))), dict(sorted(attributes.items())))


def _check_count(field: str, count: int) -> None:
    if count > MOST:
        raise InvalidTag(
            field=field, value=count, problem="are too many", hint=f"Give at most {MOST}."
        )


def _check_text(field: str, text: object) -> None:
    if not isinstance(text, str):
        problem = f"is a {type(text).__name__}, not a text"
    elif not 1 <= len(text) <= LONGEST:
        problem = f"has {len(text)} characters"
    elif not text.isprintable():
        problem = "has a character that cannot be printed"
    else:
        return
    hint = f"Use 1 to {LONGEST} printable characters."
    raise InvalidTag(field=field, value=text, problem=problem, hint=hint)


def _check_name(name: object) -> None:
    _check_text("attribute name", name)
    if not NAME.fullmatch(str(name)):
        raise InvalidTag(
            field="attribute name", value=name, problem="cannot be written in a filter",
            hint="Use letters, digits, '_', '.' and '-', and begin with a letter.",
        )  # fmt: skip
    if name in KEYS:
        raise InvalidTag(
            field="attribute name", value=name, problem="is a key of the filter language",
            hint=f"Choose another than {', '.join(KEYS)}.",
        )  # fmt: skip


def _check_value(name: str, value: object) -> None:
    field = f"attribute {name}"
    if isinstance(value, str):
        if value:  # an empty one is a value too
            _check_text(field, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidTag(field=field, value=value, problem="is not finite", hint="Leave it out.")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise InvalidTag(
            field=field, value=value, problem="has more than 64 bits", hint="Give it as a text."
        )
    elif not isinstance(value, int | float):
        problem = f"is a {type(value).__name__}"
        hint = "Use a text, a number, True or False."
        raise InvalidTag(field=field, value=value, problem=problem, hint=hint)


def compared(value: Value) -> str | int | float:
    """Return what a filter compares: truth is the text that is typed for it."""
    return ("true" if value else "false") if isinstance(value, bool) else value


def rows_of(labels: Labels) -> list[Label]:
    """Return the labels as a store keeps them."""
    rows = [Label("", "tag", tag) for tag in labels.tags]
    attributes = labels.attributes.items()
    return rows + [Label(name, type(value).__name__, compared(value)) for name, value in attributes]


def labels_of(rows: Iterable[tuple[str, str, str | int | float]]) -> Labels:
    """Return the labels that were kept as these rows."""
    listed = sorted(rows, key=lambda row: row[0])
    tags = sorted(str(value) for name, _, value in listed if not name)
    attributes: dict[str, Value] = {
        name: value == "true" if kind == "bool" else value for name, kind, value in listed if name
    }
    return Labels(tuple(tags), attributes)
