"""Sealing anew: what an old key of the ring encrypted is encrypted with the current one.

Beside running workers, row by row, and each row only if it still is what was read: so whoever
reads finds one or the other, both of which the ring opens. Nothing says how far it has come. A
sweep goes through everything, and sweeps are repeated until one finds nothing to do; so whoever
dies on the way begins again, and what others wrote with an old key meanwhile is found too.

A blob is put again under a new name before a row names it; the old one is collected when nobody
has named it for the grace of a collection. A result that is kept for later calls stands under a
key that only the old key tells: nobody finds it any more, so it is forgotten.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Protocol

from holdfast.errors import CannotDecrypt, OutcomeUnknown
from holdfast.model.family import cut_report
from holdfast.model.moving import SEALED, Change, Reseal, Row, Table, Value
from holdfast.model.rekeying import Rekeyed, RekeySight
from holdfast.model.secrets import place_of
from holdfast.ports.blobs import BlobStore
from holdfast.ports.keys import Keys
from holdfast.stores.envelope import (
    BLOB,
    ENCRYPTED,
    Reference,
    encrypted_in,
    fits,
    head_of,
    is_sealed,
    reference_in,
)
from holdfast.stores.sealed.opening import hidden_in, is_hidden
from holdfast.stores.sealed.sealing import SEALED_TEXT, digest_place, hidden_digest, mixed

BATCH = 200
"""Rows that are read, and changed in one transaction, at a time."""
SWEEPS = 5
"""How often it goes through the store: more means that somebody still encrypts with an old key."""

Tell = Callable[[RekeySight], None]


class Rows(Protocol):
    """The part of one side of a move that is needed."""

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Return the next rows behind a key."""
        ...

    async def change(self, change: Change) -> bool:
        """Carry out a change in one transaction."""
        ...


async def rekey(
    rows: Rows, keys: Keys, blobs: BlobStore | None, *, only_looks: bool = False, tell: Tell
) -> Rekeyed:
    """Seal everything anew that another key of the ring encrypted; `only_looks` counts it."""
    rewritten = forgotten = 0
    resealer = Resealer(keys, blobs, only_looks=only_looks)
    for number in range(1, SWEEPS + 1):
        resealer.begin()
        sweep = _Sweep(rows, resealer, number, tell, only_looks=only_looks)
        await sweep.go()
        rewritten, forgotten = rewritten + sweep.rewritten, forgotten + sweep.forgotten
        if only_looks or not sweep.rewritten + sweep.forgotten:
            break
    used = dict(sorted(resealer.used.items()))
    unused = tuple(id for id in keys.ids if id != keys.current and id not in used)
    unread = dict(sorted(resealer.unread.items()))
    return Rekeyed(keys.current, rewritten, forgotten, used, unused, unread, resealer.lost)


class _Sweep:
    """One way through everything that may be encrypted."""

    def __init__(
        self, rows: Rows, resealer: Resealer, number: int, tell: Tell, *, only_looks: bool
    ) -> None:
        self._rows, self._resealer, self._tell = rows, resealer, tell
        self._number, self._only_looks = number, only_looks
        self.rewritten = self.forgotten = 0

    async def go(self) -> None:
        """Go through all tables, batch by batch."""
        for table in SEALED:
            after, seen = Row(), 0
            while batch := await self._rows.read(table, after, BATCH):
                await self._reseal(table, batch)
                after, seen = batch[-1][: len(table.key)], seen + len(batch)
                self._tell(RekeySight(self._number, table.name, seen, self.rewritten))

    async def _reseal(self, table: Table, batch: list[Row]) -> None:
        changed: list[tuple[Row, Row | None]] = []
        for was in batch:
            new = await self._resealer.row(table, was)
            if new != was:
                changed.append((was, new))
        self.forgotten += (gone := sum(new is None for _, new in changed))
        self.rewritten += len(changed) - gone
        if not changed or self._only_looks:
            return
        # The next sweep finds what was left out because somebody else has changed it, or what may
        # not have happened.
        with suppress(OutcomeUnknown):
            await self._rows.change(Reseal(table, changed))


class Resealer:
    """Seals rows anew, and counts the keys. What cannot be opened stays as it is."""

    def __init__(self, keys: Keys, blobs: BlobStore | None, *, only_looks: bool = False) -> None:
        self._keys, self._blobs, self._only_looks = keys, blobs, only_looks
        self._seen: dict[str, tuple[str, bytes]] = {}
        """The key of each blob that was looked at, and what is to name it. Empty: it is plain."""
        self.begin()

    def begin(self) -> None:
        """Count from the start."""
        self.used: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.lost = 0

    async def row(self, table: Table, row: Row) -> Row | None:
        """Return a row as it is to be; None if it is to be forgotten."""
        at = len(table.key)
        key, values = row[:at], row[at:]
        match table.name:
            case "runs":
                return *key, self._text(values[0]), self._digest(key, values[1])
            case "schedules":
                return *key, await self._payload(values[0]), self._state(key, values[1])
            case "run_secrets":
                return *key, *self._secret(key, *values)
            case "step_cache":
                return row if await self._payload(values[0]) == values[0] else None
            case _:
                return *key, *[await self._payload(value) for value in values]

    # --- values

    async def _payload(self, stored: Value) -> Value:
        if not isinstance(stored, bytes):
            return stored
        if stored[:1] == bytes((BLOB,)):
            return await self._blob(stored)
        if stored[:1] == bytes((ENCRYPTED,)):
            return self._envelope(stored)
        head, inner, tail = cut_report(stored)  # what a parent is told of a child that ended
        if not is_sealed(inner):
            return stored
        told = await self._payload(inner)
        return head + told + tail if isinstance(told, bytes) else stored

    def _text(self, stored: Value) -> Value:
        if not isinstance(stored, str) or stored[:1] != SEALED_TEXT:
            return stored
        was = b64decode(stored[1:])
        new = self._envelope(was)
        return stored if new is was else SEALED_TEXT + b64encode(new).decode()

    def _digest(self, key: Row, stored: Value) -> Value:
        """Hide a digest with the current key; `key` says where it belongs."""
        if not isinstance(stored, bytes) or not is_hidden(stored):
            return stored
        id, hidden = hidden_in(stored)
        if not self._must_change(id):
            return stored
        place, keys = digest_place(str(key[0]), str(key[1])), self._keys
        return hidden_digest(mixed(hidden, keys, id, place), keys, keys.current, place)

    def _state(self, key: Row, stored: Value) -> Value:
        """Seal the digest anew that stands in the state of a schedule."""
        if not isinstance(stored, str):
            return stored
        state: Any = json.loads(stored)
        was = bytes.fromhex(state["how"]["input_digest"])
        new = self._digest(key, was)
        if new is was or not isinstance(new, bytes):
            return stored
        state["how"]["input_digest"] = new.hex()
        return json.dumps(state, separators=(",", ":"))

    def _secret(self, key: Row, id: Value, sealed: Value) -> Row:
        if not isinstance(sealed, bytes) or not self._must_change(str(id)):
            return id, sealed
        ns, run, name = map(str, key)
        place = place_of(ns, run, name)
        try:
            return self._keys.seal(self._keys.unseal(str(id), sealed, place), place)
        except CannotDecrypt:
            self.unread[str(id)] += 1
            return id, sealed

    # --- bytes

    def _must_change(self, id: str) -> bool:
        """Count a use of a key; tell whether another is to take its place, and can."""
        self.used[id] += 1
        if id == self._keys.current:
            return False
        self.unread.update(() if id in self._keys.ids else (id,))
        return id in self._keys.ids

    def _envelope(self, stored: bytes) -> bytes:
        try:
            found = encrypted_in(stored)
        except ValueError:
            self.unread["?"] += 1
            return stored
        if not self._must_change(found.key):
            return stored
        try:
            plain = self._keys.unseal(found.key, found.body, found.head)
        except CannotDecrypt:
            self.unread[found.key] += 1
            return stored
        head = head_of(self._keys.current, found.place.encoded())
        return head + self._keys.seal(plain, head)[1]

    async def _blob(self, stored: bytes) -> bytes:
        """Return what is to name a blob; the same for each row that names it."""
        reference = reference_in(stored)
        name = "" if reference is None else reference.name
        if (seen := self._seen.get(name)) is not None:
            key, named = seen
            self.used.update((key,) if key else ())
            return named
        data = None if self._blobs is None else await self._blobs.get(name)
        if data is None or not fits(name, data):
            self.lost += 1
            return stored
        key, named = "", stored
        if data[:1] == bytes((ENCRYPTED,)):
            key, new = key_in(data), self._envelope(data)
            named = stored if new is data else await self._put(new)
        self._seen[name] = key, named
        return named

    async def _put(self, data: bytes) -> bytes:
        """Put the bytes under a new name, before a row names them; return what is to name them."""
        name = f"{sha256(data).hexdigest()}-{os.urandom(8).hex()}"
        if self._blobs is not None and not self._only_looks:
            await self._blobs.put(name, data)
        named = Reference(name, len(data)).encoded()
        self._seen[name] = self._keys.current, named
        return named


def key_in(sealed: bytes) -> str:
    """Return the id of the key that has encrypted these bytes; "?" if they do not tell."""
    try:
        return encrypted_in(sealed).key
    except ValueError:
        return "?"
