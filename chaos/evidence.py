"""All that is known at the end of a round, as plain data: the verdict is a function of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chaos.driver import Told
from chaos.journal import Pages
from holdfast.model.dump import Dump

UNTIL_TAKEN = "SIGSTOP until taken over"
"""The fault after which a commit must be refused."""


class Fault(NamedTuple):
    """Something that was broken, and whom it hit."""

    kind: str
    at: int
    """Microseconds since 1970."""
    pids: tuple[int, ...]
    """The hosts that were hit."""
    until: int = 0
    """When it was over, for what lasts."""


class Evidence(NamedTuple):
    """The store, the journal, what callers were told, and what was done to all of it."""

    dump: Dump
    pages: Pages
    told: Mapping[str, Told]
    faults: tuple[Fault, ...] = ()
    hosts: tuple[str, ...] = ()
    """What hosts did that they must not."""
    calls: tuple[str, ...] = ()
    """What calls of the driver raised that they must not."""
    booked: tuple[tuple[str, str], ...] = ()
    """The rows that transactions wrote to their own table: for which step, by which execution."""
    changed: tuple[str, ...] = ()
    """What was not as it had been when the store was looked at again."""
