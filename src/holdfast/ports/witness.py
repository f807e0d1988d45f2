"""What keeps, in a database of the user's, that a step has taken effect there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from holdfast.model.deeds import Deed

C_co = TypeVar("C_co", covariant=True)


class Witness(Protocol[C_co]):
    """A database of the user's, and a table of ours in it: one row for each deed that was done.

    `C_co` is what the step is given to work with: a connection, or a session.
    """

    def once(self, deed: Deed, work: Callable[[C_co], bytes]) -> bytes:
        """Do `work` and keep what it returns, in one transaction; if it was done, return that.

        Whoever does the same at the same time waits, and is then told what came of it.
        """
        ...

    def prune(self, older_than: timedelta) -> int:
        """Forget deeds that were done so long ago; return how many.

        A step whose deed is forgotten before it is recorded would be done again.
        """
        ...


class Forgetting(Protocol):
    """A witness that can forget what some runs did, so that others' deeds stay."""

    def runs(self, ns: str, older_than: timedelta, after: str = "") -> list[str]:
        """Return runs that did something so long ago, in order, beyond `after`; some at a time."""
        ...

    def forget(self, ns: str, runs: Sequence[str], older_than: timedelta) -> int:
        """Forget what these runs did so long ago; return how many deeds."""
        ...
