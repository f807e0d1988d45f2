"""The way in: each payload of a write as it is to be stored.

What stays plain is what a store or a person looks for: ids, names, kinds, keys, times, tags and
attributes. Everything that a user's code said or was given is sealed.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Protocol

from holdfast.model.annotations import Annotations, LogLine, Progress
from holdfast.model.cache import DIGEST, CachedResult
from holdfast.model.events import Event
from holdfast.model.jobs import Job, JobRef
from holdfast.model.run import Message, Run
from holdfast.model.waits import Wait, Waits
from holdfast.model.writes import (
    Advance,
    Annotate,
    Create,
    Depart,
    Forget,
    Free,
    Import,
    Move,
    Put,
    Remember,
    Replied,
    Report,
    Reschedule,
    Send,
    Write,
)
from holdfast.ports.keys import Keys
from holdfast.stores.envelope import ENCRYPTED, PLAIN, Place, head_of, is_sealed

SEALED_TEXT = "\x01"
"""How a text begins that holds encrypted bytes, in Base64."""
ANSWER_DIGEST = 16
"""Bytes of a digest that tells something of arguments; shorter ones are of code."""
PAD = 32
"""Bytes of a pad."""
NO_PAYLOAD = 0x80
"""Set in the first byte of an event's plain bytes if it has no payload, only a digest."""


class Upload(Protocol):
    """What keeps bytes as a blob before the write that names it."""

    def __call__(self, data: bytes) -> bytes:
        """Take the bytes; return what the row holds instead."""
        ...


class Sealer:
    """Seals the payloads of one batch of writes. What is longer than `inline` is uploaded."""

    def __init__(self, keys: Keys | None, inline: int, upload: Upload | None) -> None:
        self._keys, self._inline, self._upload = keys, inline, upload

    def write(self, write: Write) -> Write:
        """Return the write with everything in it sealed."""
        if isinstance(write, Forget):
            return write._replace(key=hidden(write.key, self._keys, write.ns))
        seal = _SEALED.get(type(write))
        return write if seal is None else seal(self, write)

    # --- bytes

    def seal(self, plain: bytes, ns: str, run: str, what: str) -> bytes:
        """Return a payload as it is to be stored in its row."""
        if self._keys is None:
            return plain
        place = Place(ns, run, what).encoded()
        head = head_of(self._keys.current, place)
        return head + self._keys.seal(plain, head)[1]

    def _large(self, plain: bytes, ns: str, run: str, what: str) -> bytes:
        """The same, as a blob if it is too long for a row."""
        sealed = self.seal(plain, ns, run, what)
        if self._upload is None or len(sealed) <= self._inline:
            return sealed
        return self._upload(sealed)

    def _text(self, plain: str, ns: str, run: str, what: str) -> str:
        if self._keys is None or not plain:
            return plain
        return SEALED_TEXT + b64encode(self.seal(plain.encode(), ns, run, what)).decode()

    # --- parts of writes

    def event(self, ns: str, run: str, event: Event) -> Event:
        """Return an event as it is to be stored."""
        payload, digest = event.payload, event.digest
        if event.codec != PLAIN:
            return event
        hides = self._keys is not None and digest is not None and len(digest) == ANSWER_DIGEST
        if payload is None and not hides:
            return event
        plain = payload or b""
        if self._keys is not None:
            hidden = digest if hides and digest is not None else b""
            plain = bytes((len(hidden) | (NO_PAYLOAD * (payload is None)),)) + hidden + plain
        sealed = self._large(plain, ns, run, event_place(event))
        codec = sealed[0] if is_sealed(sealed) else PLAIN
        return event._replace(payload=sealed, digest=None if hides else digest, codec=codec)

    def message(self, ns: str, run: str, message: Message) -> Message:
        """Return a message as it is to be stored."""
        payload, reply = message.payload, message.reply
        if payload is not None:
            payload = self._large(payload, ns, run, message_place(message))
        if reply is not None:
            reply = self._large(reply, ns, run, reply_place(message.id))
        return message._replace(payload=payload, reply=reply)

    def row(self, run: Run) -> Run:
        """Return the row of a run as it is to be stored."""
        if self._keys is None:
            return run
        return run._replace(
            reason=self._text(run.reason, run.ns, run.id, "reason"),
            input_digest=self._digest(run.ns, run.id, run.input_digest),
        )

    def _digest(self, ns: str, run: str, digest: bytes) -> bytes:
        """Hide what could be guessed; the same input of a run is the same bytes again."""
        if self._keys is None:
            return digest
        return hidden_digest(digest, self._keys, self._keys.current, digest_place(ns, run))

    def _digests(self, ns: str, run: str, digest: bytes) -> tuple[bytes, ...]:
        """Return what an equal input may have left: a child that is there may be older than the
        current key.
        """
        if self._keys is None:
            return ()
        place = digest_place(ns, run)
        return digest, *(hidden_digest(digest, self._keys, key, place) for key in self._keys.ids)

    def _annotations(self, ns: str, run: str, said: Annotations) -> Annotations:
        if self._keys is None:
            return said
        return said._replace(
            lines=tuple(self._line(ns, run, line) for line in said.lines),
            progress=tuple(self._progress(ns, run, beat) for beat in said.progress),
        )

    def _line(self, ns: str, run: str, line: LogLine) -> LogLine:
        fields = None if line.fields is None else line.fields.decode()
        plain = json.dumps([line.message, fields], ensure_ascii=False).encode("utf-8", "replace")
        return line._replace(message="", fields=self.seal(plain, ns, run, line_place(line)))

    def _progress(self, ns: str, run: str, beat: Progress) -> Progress:
        if beat.details is None:
            return beat
        return beat._replace(details=self.seal(beat.details, ns, run, f"progress\0{beat.key}"))

    def _waits(self, waits: Waits) -> Waits:
        opens = tuple(map(self._wait, waits.opens))
        return waits._replace(opens=opens, jobs=tuple(map(self._job, waits.jobs)))

    def _job(self, job: Job) -> Job:
        return job._replace(args=self.seal(job.args, job.ns, job.run, job_place(job)))

    def _held(self, ns: str, run: str, job: JobRef) -> JobRef:
        if job.annotations is None:
            return job
        return job._replace(annotations=self._annotations(ns, run, job.annotations))

    def _wait(self, wait: Wait) -> Wait:
        answer = wait.answer
        if answer is not None:
            answer = self.seal(answer, wait.ns, wait.run, f"answer\0{wait.key}")
        asked = self.seal(wait.asked, wait.ns, wait.run, f"asked\0{wait.key}")
        return wait._replace(asked=asked, answer=answer)

    def _replied(self, ns: str, run: str, told: Replied) -> Replied:
        if told.payload is None:
            return told
        return told._replace(payload=self._large(told.payload, ns, run, reply_place(told.message)))

    # --- writes

    def create(self, write: Create) -> Create:
        """Seal a start: its input, and its first message."""
        ns, run, message = write.ns, write.id, write.message
        return write._replace(
            event=self.event(ns, run, write.event),
            input_digest=self._digest(ns, run, write.input_digest),
            message=None if message is None else self.message(ns, run, message),
            also=() if write.link is None else self._digests(ns, run, write.input_digest),
        )

    def advance(self, write: Advance) -> Advance:
        """Seal a turn: its events, what was said in it, and what it sends."""
        ns, run, said = write.ns, write.run, write.annotations
        return write._replace(
            events=tuple(self.event(ns, run, event) for event in write.events),
            reason=self._text(write.reason, ns, run, "reason"),
            annotations=None if said is None else self._annotations(ns, run, said),
            replies=tuple(self._replied(ns, run, told) for told in write.replies),
            sends=tuple(map(self.send, write.sends)),
            waits=None if write.waits is None else self._waits(write.waits),
        )

    def send(self, send: Send) -> Send:
        """Seal what a turn does to another run."""
        match send:
            case Create():
                return self.create(send)
            case Put():
                return self.put(send)
            case Depart():
                return self.depart(send)
            case Free():
                return send
            case Remember():
                return send._replace(kept=self._result(send.kept))

    def _result(self, kept: CachedResult) -> CachedResult:
        """Seal what is kept for later calls, and hide its key."""
        kept = kept._replace(key=hidden(kept.key, self._keys, kept.ns))
        return kept._replace(result=self._large(kept.result, kept.ns, "", result_place(kept)))

    def depart(self, write: Depart) -> Depart:
        """Seal how a run ended, for its parent."""
        return write._replace(event=self.event(write.ns, write.run, write.event))

    def put(self, write: Put) -> Put:
        """Seal a message, and what it answers."""
        ns, run, answers = write.ns, write.run, write.answers
        if answers is not None:
            sealed = self.seal(answers.payload, ns, run, f"answer\0{answers.key}")
            answers = answers._replace(payload=sealed)
        ends = None if write.ends is None else self._held(ns, run, write.ends)
        message = self.message(ns, run, write.message)
        return write._replace(message=message, answers=answers, ends=ends)

    def move(self, write: Move) -> Move:
        """Seal why a run is moved."""
        ns, run = write.ns, write.run
        return write._replace(
            event=self.event(ns, run, write.event),
            reason=self._text(write.reason, ns, run, "reason"),
            sends=tuple(map(self.send, write.sends)),
        )

    def annotate(self, write: Annotate) -> Annotate:
        """Seal what is said."""
        said = self._annotations(write.ns, write.run, write.annotations)
        return write._replace(annotations=said)

    def report(self, write: Report) -> Report:
        """Seal what a job says."""
        return write._replace(job=self._held(write.ns, write.run, write.job))

    def reschedule(self, write: Reschedule) -> Reschedule:
        """Seal the input of a schedule, and what follows for runs."""
        row = write.row
        if row is not None:
            hidden = self._digest(write.ns, write.id, row.how.input_digest)
            row = row._replace(
                input=self.seal(row.input, write.ns, write.id, "schedule"),
                how=row.how._replace(input_digest=hidden),
            )
        sends = tuple(self._scheduled(send) for send in write.sends)
        return write._replace(row=row, sends=sends)

    def _scheduled(self, send: Create | Put | Move) -> Create | Put | Move:
        if isinstance(send, Create):
            return self.create(send)
        return self.put(send) if isinstance(send, Put) else self.move(send)

    def bring(self, write: Import) -> Import:
        """Seal a whole run."""
        export = write.export
        ns, run = export.run.ns, export.run.id
        sealed = export._replace(
            run=self.row(export.run),
            events=tuple(self.event(ns, run, event) for event in export.events),
            inbox=tuple(self.message(ns, run, message) for message in export.inbox),
        )
        return write._replace(export=sealed)


_SEALED: Mapping[type[Any], Callable[[Sealer, Any], Write]] = {
    Create: Sealer.create,
    Advance: Sealer.advance,
    Put: Sealer.put,
    Move: Sealer.move,
    Annotate: Sealer.annotate,
    Report: Sealer.report,
    Reschedule: Sealer.reschedule,
    Import: Sealer.bring,
}


def event_place(event: Event) -> str:
    """Return what an event is in its run, wherever it stands there."""
    return f"event\0{event.kind}\0{event.key}"


def message_place(message: Message) -> str:
    """Return what a message is in its run."""
    return f"message\0{message.kind}\0{message.id}"


def job_place(job: Job) -> str:
    """Return what the arguments of a job are in its run."""
    return f"job\0{job.key}"


def result_place(kept: CachedResult) -> str:
    """Return what a result is that is kept for later calls, under its key as it is stored."""
    return f"cache\0{kept.step}\0{kept.version}\0{kept.key}"


def hidden(key: str, keys: Keys | None, ns: str) -> str:
    """Return the key of a result as it is stored: nobody can guess the arguments from it."""
    if keys is None or not key:
        return key
    pad = keys.pad(keys.current, Place(ns, "", "cache").encoded())
    return blake2b(key.encode(), key=pad, digest_size=DIGEST).hexdigest()


def reply_place(message: str) -> str:
    """Return what the reply to a message is."""
    return f"reply\0{message}"


def line_place(line: LogLine) -> str:
    """Return what a line is in the log of its run."""
    return f"log\0{line.at}"


def digest_place(ns: str, run: str) -> bytes:
    """Return where the digest of a run's input belongs."""
    return Place(ns, run, "input").encoded()


def mixed(digest: bytes, keys: Keys, key: str, place: bytes) -> bytes:
    """Return a digest that pads hide; the same again bring it back. Raises `CannotDecrypt`."""
    pads = b"".join(keys.pad(key, place + bytes((n,))) for n in range(len(digest) // PAD + 1))
    return bytes(a ^ b for a, b in zip(digest, pads, strict=False))


def hidden_digest(digest: bytes, keys: Keys, key: str, place: bytes) -> bytes:
    """Return a digest as it is stored: the id of a key, and what its pads make of it."""
    id = key.encode()
    hidden = mixed(digest, keys, key, place)
    return bytes((ENCRYPTED,)) + len(id).to_bytes(2) + id + hidden


def is_any_longer(batch: Any, inline: int) -> bool:
    """Tell whether a write of the batch has a payload that is longer than `inline`."""
    for write in batch:
        if type(write) is Advance and not write.sends and not write.replies:
            for event in write.events:
                if event.payload is not None and len(event.payload) > inline:
                    return True
        elif type(write) in _SEALED:
            return True
    return False
