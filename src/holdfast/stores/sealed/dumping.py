"""Everything a store holds, opened. What cannot be opened is left out, and named.

Each blob that is named is read and checked. The bytes of large ones are not kept: a dump is for
those who look at many runs, not at what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import UNREADABLE
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event
from holdfast.model.run import Message
from holdfast.ports.keys import Keys
from holdfast.stores.envelope import PLAIN, fits, reference_in
from holdfast.stores.sealed.blobs import AT_ONCE, Blobs
from holdfast.stores.sealed.opening import Opener, references

KEPT = 1024 * 1024
"""Bytes up to which a blob's payload is in the dump."""

T = TypeVar("T")


class Dumping:
    """Opens a dump."""

    def __init__(self, keys: Keys | None, blobs: Blobs | None) -> None:
        self._keys, self._blobs = keys, blobs
        self._found: dict[str, bytes | None] = {}
        self._large: set[str] = set()
        self._unread: list[tuple[RunKey, str]] = []

    async def opened(self, dump: Dump) -> Dump:
        """Return the dump, opened, with what could not be read."""
        events = (event for history in dump.events.values() for event in history)
        mail = (message for inbox in dump.inbox.values() for message in inbox)
        await self._fetch(tuple(dict.fromkeys(references(events, mail, dump.cache))))
        opener = Opener(self._keys, self._found)
        histories = {key: self._history(opener, key, each) for key, each in dump.events.items()}
        return dump._replace(
            runs=tuple(map(opener.row, dump.runs)),
            events=histories,
            inbox={
                key: tuple(self._message(opener, key, each) for each in inbox)
                for key, inbox in dump.inbox.items()
            },
            progress={
                key: tuple(self._tried(key, opener.progress, *key, each) for each in beats)
                for key, beats in dump.progress.items()
            },
            logs={
                key: tuple(self._tried(key, opener.line, *key, each) for each in lines)
                for key, lines in dump.logs.items()
            },
            waits=tuple(self._tried((w.ns, w.run), opener.wait, w) for w in dump.waits),
            schedules=tuple(self._tried((s.ns, s.id), opener.schedule, s) for s in dump.schedules),
            jobs=tuple(self._tried((j.ns, j.run), opener.job, j) for j in dump.jobs),
            cache=tuple(
                self._tried((kept.ns, kept.run), opener.result, kept)
                for kept in dump.cache
                if not self._is_large(kept.result)
            ),
            unread=tuple(self._unread),
        )

    async def _fetch(self, names: tuple[str, ...]) -> None:
        """Read the blobs, a few at a time; keep the small ones."""
        if self._blobs is None:
            return
        for begin in range(0, len(names), AT_ONCE):
            some = await self._blobs.fetched(names[begin : begin + AT_ONCE])
            for name, data in some.items():
                if data is not None and len(data) > KEPT and fits(name, data):
                    self._large.add(name)
                else:
                    self._found[name] = data

    def _history(self, opener: Opener, key: RunKey, events: tuple[Event, ...]) -> tuple[Event, ...]:
        shared_to = max((event.seq for event in events if event.kind == "run.forked"), default=0)
        found: list[Event] = []
        for event in events:
            if self._is_large(event.payload):
                found.append(event._replace(payload=None, codec=PLAIN))
                continue
            try:
                found.append(opener.event(*key, event, is_shared=event.seq < shared_to))
            except UNREADABLE as error:
                self._unread.append((key, f"event {event.seq}: {error}"))
                found.append(event._replace(payload=None))
        return tuple(found)

    def _message(self, opener: Opener, key: RunKey, message: Message) -> Message:
        if any(name in self._large for name in references(mail=(message,))):
            return message._replace(payload=None, reply=None)
        return self._tried(key, opener.message, *key, message)

    def _is_large(self, payload: bytes | None) -> bool:
        reference = reference_in(payload)
        return reference is not None and reference.name in self._large

    def _tried(self, key: RunKey, open: Callable[..., T], *args: Any) -> T:
        try:
            return open(*args)
        except UNREADABLE as error:
            self._unread.append((key, str(error)))
            left: T = args[-1]
            return left
