"""Secrets on their way into a state: known by the names of their fields, before they are stored.

They are warnings like any other, but for those of a body: replays and views do not repeat them, and
where a process takes warnings for errors, the worker logs them, for a body goes the same way
everywhere.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import SecretInState
from holdfast.machine import current
from holdfast.model.secrets import Secret

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
NAMES = frozenset({
    "apikey", "credential", "credentials", "passphrase", "passwd", "password", "pwd", "secret",
    "token",
})  # fmt: skip
KEYS = frozenset({"access", "api", "auth", "encryption", "private", "secret", "signing"})
"""What makes a secret of a `key`, as in `api_key`."""
PLACES = frozenset({"next", "page"})
"""What makes a place in a list of a `token`, as in `next_page_token`."""

BESIDE = "state.set_secret({name!r}, ...)"


@functools.lru_cache(maxsize=1024)
def sounds_secret(name: str) -> bool:
    """Tell whether what has this name is probably a secret: `token`, `dbPassword`, `api_key`."""
    *before, last = [word.lower() for word in WORD.findall(name)] or [""]
    kind = before[-1] if before else ""
    if last == "token":
        return kind not in PLACES
    return last in NAMES or (last == "key" and kind in KEYS)


def exposed(values: Mapping[str, Any]) -> list[str]:
    """Return the names in `values` of what are probably secrets."""
    return [
        name
        for name, value in values.items()
        if isinstance(value, str | bytes | Secret) and value and sounds_secret(str(name))
    ]


def refuse_exposed(values: Mapping[str, Any], where: str, *, line: str = BESIDE) -> None:
    """Refuse values among which there is a secret. Raises `SecretInState`."""
    for name in exposed(values):
        raise SecretInState(name=name, where=where, line=line.format(name=name))


def warn_of_exposed(
    values: Mapping[str, Any], where: str, *, line: str = BESIDE, level: int = 2
) -> None:
    """Warn of each secret in values that are to be stored; of the caller's caller, by `level`."""
    if found := exposed(values):
        warn_of(found, where, line=line, level=level + 1)


def warn_of(names: Iterable[str], where: str, *, line: str, level: int = 2) -> None:
    """Warn of secrets by their names."""
    machine = current()
    if machine is not None and (machine.is_quiet or machine.loop.dead or _is_watched()):
        return
    for name in names:
        warning = SecretInState(name=name, where=where, line=line.format(name=name))
        try:
            warnings.warn(warning, stacklevel=level + 1)
        except SecretInState:
            if machine is None:
                raise
            machine.warnings += (str(warning),)


def _is_watched() -> bool:
    """Tell whether this body is walked for a view: its worker has warned."""
    from holdfast.fronts.graph.tracing import TRACE  # which knows of states

    return TRACE.get() is not None
