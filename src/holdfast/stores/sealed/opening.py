"""The way out: each payload as it was given, or an error that says why it cannot be."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.errors import BlobMissing, CannotDecrypt
from holdfast.model.annotations import LogLine, Progress
from holdfast.model.cache import CachedResult
from holdfast.model.events import Event
from holdfast.model.family import cut_report
from holdfast.model.jobs import Job
from holdfast.model.run import Message, Run
from holdfast.model.schedules import Scheduled
from holdfast.model.waits import Asked, Wait
from holdfast.ports.keys import Keys
from holdfast.stores.envelope import (
    BLOB,
    ENCRYPTED,
    PLAIN,
    Place,
    encrypted_in,
    fits,
    is_sealed,
    reference_in,
)
from holdfast.stores.sealed.sealing import (
    NO_PAYLOAD,
    SEALED_TEXT,
    digest_place,
    event_place,
    job_place,
    line_place,
    message_place,
    mixed,
    reply_place,
    result_place,
)

CLOSING = "event\0run."
PLAIN_DIGEST = 8
"""How long a digest is that nobody has hidden."""


class Opener:
    """Opens payloads. `blobs` holds the bytes of those that are blobs, None for missing ones."""

    def __init__(self, keys: Keys | None, blobs: Mapping[str, bytes | None]) -> None:
        self._keys, self._blobs = keys, blobs

    def open(self, sealed: bytes, place: Place) -> bytes:
        """Return what was sealed for this place. Raises `CannotDecrypt` or `BlobMissing`."""
        return self._opened(sealed, place, moved=False, child="")[0]

    def event(self, ns: str, run: str, event: Event, *, is_shared: bool = False) -> Event:
        """Return an event as it was given. One that a fork shares was sealed for another run."""
        if event.codec not in (ENCRYPTED, BLOB) or event.payload is None:
            return event
        place = Place(ns, run, event_place(event))
        plain, was_encrypted = self._opened(event.payload, place, moved=is_shared, child="")
        if not was_encrypted:
            return event._replace(payload=plain, codec=PLAIN)
        digest, payload = _parted(plain)
        return event._replace(payload=payload, digest=digest or event.digest, codec=PLAIN)

    def events(self, ns: str, run: str, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return a history as it was given."""
        shared_to = max((e.seq for e in events if e.kind == "run.forked"), default=0)
        return tuple(
            self.event(ns, run, event, is_shared=event.seq < shared_to) for event in events
        )

    def message(self, ns: str, run: str, message: Message) -> Message:
        """Return a message as it was given."""
        payload, reply = message.payload, message.reply
        if payload is not None and is_sealed(payload):
            payload = self.open(payload, Place(ns, run, message_place(message)))
        elif payload is not None and message.kind == "child":
            payload = self._report(ns, message, payload)
        if reply is not None and is_sealed(reply):
            reply = self.open(reply, Place(ns, run, reply_place(message.id)))
        return message._replace(payload=payload, reply=reply)

    def _report(self, ns: str, message: Message, payload: bytes) -> bytes:
        """Open what a child ended with, which stands in what its parent is told."""
        head, inner, tail = cut_report(payload)
        if not is_sealed(inner):
            return payload
        place = Place(ns, "", CLOSING)
        plain, was_encrypted = self._opened(inner, place, moved=False, child=message.id)
        told = _parted(plain)[1] or b"null" if was_encrypted else plain
        return head + told + tail

    def row(self, run: Run) -> Run:
        """Return the row of a run as it was given; what cannot be read is said in its place."""
        reason, digest = run.reason, run.input_digest
        if reason[:1] == SEALED_TEXT:
            try:
                sealed = b64decode(reason[1:])
                reason = self.open(sealed, Place(run.ns, run.id, "reason")).decode()
            except CannotDecrypt as error:
                reason = f"(encrypted with key {error.key!r}, which is not here)"
        if is_hidden(digest):
            digest = self._digest(run.ns, run.id, digest)
        return run._replace(reason=reason, input_digest=digest)

    def _digest(self, ns: str, id: str, stored: bytes) -> bytes:
        key, hidden = hidden_in(stored)
        try:
            if self._keys is not None:
                return mixed(hidden, self._keys, key, digest_place(ns, id))
        except CannotDecrypt:
            pass
        return stored  # as good as any other: nothing equals it

    def line(self, ns: str, run: str, line: LogLine) -> LogLine:
        """Return a line of a log as it was said."""
        if line.fields is None or not is_sealed(line.fields):
            return line
        message, fields = json.loads(self.open(line.fields, Place(ns, run, line_place(line))))
        return line._replace(message=message, fields=None if fields is None else fields.encode())

    def progress(self, ns: str, run: str, beat: Progress) -> Progress:
        """Return a heartbeat as it was given."""
        if beat.details is None or not is_sealed(beat.details):
            return beat
        place = Place(ns, run, f"progress\0{beat.key}")
        return beat._replace(details=self.open(beat.details, place))

    def job(self, job: Job) -> Job:
        """Return a job with its arguments."""
        if not is_sealed(job.args):
            return job
        return job._replace(args=self.open(job.args, Place(job.ns, job.run, job_place(job))))

    def result(self, kept: CachedResult) -> CachedResult:
        """Return what is kept for later calls, as it was given."""
        if not is_sealed(kept.result):
            return kept
        place = Place(kept.ns, "", result_place(kept))
        return kept._replace(result=self.open(kept.result, place))

    def schedule(self, row: Scheduled) -> Scheduled:
        """Return a schedule with the input of its runs."""
        if not is_sealed(row.input):
            return row
        digest = self._digest(row.ns, row.id, row.how.input_digest)
        return row._replace(
            input=self.open(row.input, Place(row.ns, row.id, "schedule")),
            how=row.how._replace(input_digest=digest),
        )

    def wait(self, wait: Wait, *, is_listed: bool = False) -> Wait:
        """Return what is waited for as it was asked; in a list, what cannot be read says so."""
        asked, answer, ns, run = wait.asked, wait.answer, wait.ns, wait.run
        try:
            if is_sealed(asked):
                asked = self.open(asked, Place(ns, run, f"asked\0{wait.key}"))
            if answer is not None and is_sealed(answer):
                answer = self.open(answer, Place(ns, run, f"answer\0{wait.key}"))
        except CannotDecrypt as error:
            if not is_listed:
                raise
            asked, answer = Asked(f"({error})", None, {}).encoded(), None
        return wait._replace(asked=asked, answer=answer)

    def _opened(
        self, sealed: bytes, place: Place, *, moved: bool, child: str
    ) -> tuple[bytes, bool]:
        """Return the plain bytes, and whether they were encrypted."""
        if sealed[:1] == bytes((BLOB,)):
            sealed = self._fetched(sealed, place)
        if sealed[:1] != bytes((ENCRYPTED,)):
            return sealed, False
        try:
            found = encrypted_in(sealed)
        except ValueError as error:
            raise CannotDecrypt(
                key="?", problem=f"is unknown: {error}", where=told(place)
            ) from None
        if self._keys is None:
            problem = "is needed, and there is no key ring"
            raise CannotDecrypt(key=found.key, problem=problem, where=told(place))
        if not _belongs(found.place, place, moved=moved, child=child):
            problem = f"opens what belongs elsewhere: {told(found.place)}"
            raise CannotDecrypt(key=found.key, problem=problem, where=told(place))
        try:
            return self._keys.unseal(found.key, found.body, found.head), True
        except CannotDecrypt as error:
            raise CannotDecrypt(key=error.key, problem=error.problem, where=told(place)) from None

    def _fetched(self, sealed: bytes, place: Place) -> bytes:
        reference = reference_in(sealed)
        name = "" if reference is None else reference.name
        data = self._blobs.get(name)
        if data is None:
            raise BlobMissing(blob=name, where=told(place), problem="is not there")
        if not fits(name, data):
            raise BlobMissing(blob=name, where=told(place), problem="holds other bytes")
        return data


def is_hidden(digest: bytes) -> bool:
    """Tell whether the digest of an input is one that a key hides."""
    return len(digest) > PLAIN_DIGEST and digest[0] == ENCRYPTED


def hidden_in(digest: bytes) -> tuple[str, bytes]:
    """Return the key that hides a digest, and what it made of it."""
    size = int.from_bytes(digest[1:3])
    return digest[3 : 3 + size].decode(), digest[3 + size :]


def references(
    events: Iterable[Event] = (),
    mail: Iterable[Message] = (),
    results: Iterable[CachedResult] = (),
) -> Iterator[str]:
    """Yield the names of the blobs that events, messages and kept results name."""
    payloads = [event.payload for event in events if event.codec == BLOB]
    payloads += [kept.result for kept in results]
    for message in mail:
        inner = message.payload
        if inner is not None and message.kind == "child":
            inner = cut_report(inner)[1]
        payloads += (message.payload, inner, message.reply)
    for payload in payloads:
        if (found := reference_in(payload)) is not None:
            yield found.name


def is_any_sealed(message: Message) -> bool:
    """Tell whether anything of a message has to be opened."""
    inner = cut_report(message.payload)[1] if message.kind == "child" and message.payload else None
    return any(map(is_sealed, (message.payload, message.reply, inner)))


def told(place: Place) -> str:
    """Return the words for a place."""
    what = place.what.replace("\0", " ").strip()
    return f"{what} of run {place.run}" if place.run else what


def _belongs(found: Place, place: Place, *, moved: bool, child: str) -> bool:
    """Tell whether bytes that were sealed for one place may be read at another."""
    if found == place:
        return True
    if found.ns != place.ns:
        return False
    if child:
        return child.endswith(f"/{found.run}") and found.what.startswith(CLOSING)
    return moved and found.what == place.what


def _parted(plain: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the digest and the payload of an event from its plain bytes."""
    flags = plain[0]
    size = flags & ~NO_PAYLOAD
    payload = None if flags & NO_PAYLOAD else plain[1 + size :]
    return plain[1 : 1 + size] or None, payload
