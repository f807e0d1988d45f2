"""Where a page ended, as a text that only the same list takes back.

A cursor names a place in the order of runs and nothing else; the namespace is always the reader's
own. The digest catches one that was made up, cut, or given by another list.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

from holdfast.errors import InvalidCursor
from holdfast.model.run import Run

SIZE = 9
LONGEST = 4_096


class Cursors(NamedTuple):
    """The cursors of one list: of this namespace, with this filter."""

    ns: str
    filter: str

    def write(self, last: Run) -> str:
        """Return the cursor behind the last run of a page."""
        return self.after(last.created_at, last.id)

    def after(self, at: int, id: str) -> str:
        """Return the cursor behind a place in the order."""
        place = f"{at}:{id}".encode()
        return urlsafe_b64encode(self._digest(place) + place).decode().rstrip("=")

    def read(self, cursor: str | None) -> tuple[int | None, str]:
        """Return the time and id a page begins after. Raises `InvalidCursor`."""
        if cursor is None:
            return None, ""
        try:
            raw = urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}".encode("ascii"))
            at, _, id = raw[SIZE:].decode().partition(":")
            is_ours = len(cursor) <= LONGEST and self._digest(raw[SIZE:]) == raw[:SIZE]
        except (TypeError, ValueError):
            raise InvalidCursor(value=cursor) from None
        if not is_ours or not at.isdigit():
            raise InvalidCursor(value=cursor)
        return int(at), id

    def _digest(self, place: bytes) -> bytes:
        bound = "\0".join((self.ns, self.filter)).encode("utf-8", "surrogatepass")
        return blake2b(
            place, digest_size=SIZE, key=blake2b(bound, digest_size=32).digest()
        ).digest()
