"""The SQL of this store, read from its `.sql` files by name.

The files write `:name` where a value goes. The server knows places only (`$1`), so a statement is
kept with the names of its places, and each call names what it binds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

from holdfast.stores.queries import migrations_of, queries_of

PACKAGE = "holdfast.stores.postgres"
PLACE = re.compile(r"(?<![:\w]):([a-z]\w*)")
COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


class Statement(NamedTuple):
    """What the server is sent, and what goes into its places."""

    text: str
    names: tuple[str, ...]

    def bound(self, values: Mapping[str, object]) -> list[object]:
        """Return the values in the order of the places."""
        return [values[name] for name in self.names]


def statement(text: str) -> Statement:
    """Number the places of a statement; a name that is used twice is one place."""
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = COMMENT.sub("", text + "\n")
    return Statement(PLACE.sub(place, text).strip(), tuple(names))


def fragments() -> Mapping[str, str]:
    """Return every text by name, for those that put statements together."""
    return queries_of(PACKAGE)


@cache
def queries() -> SimpleNamespace:
    """Return every statement as an attribute of its name."""
    return SimpleNamespace(**{name: statement(text) for name, text in fragments().items()})


def migrations() -> tuple[str, ...]:
    """Return the migration scripts, in order; the n-th makes schema version n."""
    return migrations_of(PACKAGE)


migrations()  # read now, with the code: opening a database should not wait for it
