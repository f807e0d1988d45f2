"""What a run waits for somebody outside to settle: an open question, or the outcome of a step.

Each is a row beside the history, written in the commit that asks. Whoever settles it first wins:
the answer is kept in the row by the same write that puts a message into the run's inbox, and only
if the row is still open. So nobody can settle the same thing twice, and what comes too late is
refused with the reason.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from holdfast.errors import InvalidToken
from holdfast.model.jobs import Job

WaitKind = Literal["question", "step", "job"]
WaitState = Literal["open", "answered", "over"]

LONGEST_TOKEN = 4_096


class Wait(NamedTuple):
    """One row. `key` is that of the question or step; `asked` is JSON, see `Asked`.

    `secret` is not to be guessed, and new whenever the thing is asked for anew. `to` are those who
    are asked, in the order in which they were. A row that is answered has `answer`, by whom and
    when; one that is over says `why`.
    """

    ns: str
    run: str
    key: str
    kind: WaitKind
    generation: int
    attempt: int
    secret: str
    state: WaitState
    asked_at: int
    expires_at: int | None
    to: tuple[str, ...]
    asked: bytes
    settled_at: int | None = None
    by: str = ""
    answer: bytes | None = None
    why: str = ""


class Asked(NamedTuple):
    """What is asked: the words, what people need to see, and the JSON Schema of the answer."""

    question: str
    details: Any
    schema: dict[str, Any]

    def encoded(self) -> bytes:
        """Return what a row keeps."""
        return json.dumps(self._asdict(), ensure_ascii=False, separators=(",", ":")).encode()


def asked_of(wait: Wait) -> Asked:
    """Return what the row asks."""
    return Asked(**json.loads(wait.asked))


class Waits(NamedTuple):
    """What a turn changes: rows to open, or to write anew; and keys that are over, with why.

    Beside them the jobs that other workers are to do, and the keys of those that are called off.
    """

    opens: tuple[Wait, ...] = ()
    overs: tuple[tuple[str, str], ...] = ()
    jobs: tuple[Job, ...] = ()
    drops: tuple[str, ...] = ()

    def first_due(self, wake_at: int | None) -> int | None:
        """Return when a run that waits must be looked at: at `wake_at`, or for a job before it."""
        dues = [job.start_by for job in self.jobs if job.start_by is not None]
        return min((*dues, wake_at) if wake_at is not None else dues, default=None)


class Answer(NamedTuple):
    """What settles an open row: it must be the one with this secret."""

    key: str
    secret: str
    payload: bytes
    by: str = ""


class WaitFilter(NamedTuple):
    """Which rows to read: all of a `run`; without one, what is open, the oldest first.

    `key`, `kind` and `to` narrow it down. A page begins after (`after_at`, `after_run`,
    `after_key`).
    """

    ns: str
    run: str = ""
    key: str = ""
    kind: WaitKind | None = None
    to: str = ""
    limit: int = 1_000
    after_at: int = -1
    after_run: str = ""
    after_key: str = ""

    def fits(self, wait: Wait) -> bool:
        """Tell whether the row is one of those."""
        return (
            wait.ns == self.ns
            and (wait.run == self.run if self.run else wait.state == "open")
            and (not self.key or wait.key == self.key)
            and (self.kind is None or wait.kind == self.kind)
            and (not self.to or self.to in wait.to)
            and (wait.asked_at, wait.run, wait.key)
            > (self.after_at, self.after_run, self.after_key)
        )


def answered(by: str, value: bytes) -> bytes:
    """Return what the history keeps of an answer: who gave it, and its bytes as they came."""
    return b'{"by":%b,"value":%b}' % (json.dumps(by).encode(), value)


def answer_in(payload: bytes) -> tuple[str, bytes]:
    """Return what `answered` was given. Raises `ValueError`."""
    text = payload.decode()
    by, end = json.JSONDecoder().raw_decode(text, len('{"by":'))
    return str(by), text[end + len(',"value":') : -1].encode()


def row_of(wait: Wait) -> tuple[Any, ...]:
    """Return the row with whom it is for as one text: each name has a line break on either side."""
    to = "".join(f"\n{each}\n" for each in wait.to)
    return (*wait[:10], to, *wait[11:])


def wait_of(row: Any) -> Wait:
    """Return what `row_of` was given."""
    fields = list(row)
    fields[10] = tuple(each for each in fields[10].split("\n") if each)
    return Wait(*fields)


def failed(type: str, message: str, *, retry: bool) -> bytes:
    """Return the answer that says that a step failed; no JSON begins like it."""
    return b"!" + json.dumps({"type": type, "message": message, "retry": retry}).encode()


def failure_in(answer: bytes) -> dict[str, Any] | None:
    """Return what `failed` was given, if the answer is one."""
    return json.loads(answer[1:]) if answer.startswith(b"!") else None


class OpenQuestion(NamedTuple):
    """A question that waits for an answer. `schema` is the JSON Schema that an answer must fit."""

    run: str
    key: str
    question: str
    to: tuple[str, ...]
    details: Any
    asked_at: int
    expires_at: int | None
    schema: Mapping[str, Any]


def question_in(wait: Wait) -> OpenQuestion:
    """Return the question that a row holds."""
    asked = asked_of(wait)
    return OpenQuestion(
        wait.run, wait.key, asked.question, wait.to, asked.details, wait.asked_at,
        wait.expires_at, asked.schema,
    )  # fmt: skip


class Token(NamedTuple):
    """What names one attempt of a step to whoever completes it."""

    ns: str
    run: str
    key: str
    generation: int
    attempt: int
    secret: str

    def text(self) -> str:
        """Return the token as it is handed out: fit for a URL, and for nobody to read."""
        told = json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode()
        return urlsafe_b64encode(told).decode().rstrip("=")


def token_in(wait: Wait) -> str:
    """Return the token of the step that a row stands for."""
    token = Token(wait.ns, wait.run, wait.key, wait.generation, wait.attempt, wait.secret)
    return token.text()


def token_of(text: str) -> Token:
    """Return the token that a text holds. Raises `InvalidToken`."""
    try:
        padded = f"{text}{'=' * (-len(text) % 4)}".encode("ascii")
        fields = json.loads(urlsafe_b64decode(padded)) if len(text) <= LONGEST_TOKEN else None
    except (TypeError, ValueError, AttributeError):
        raise InvalidToken(value=text) from None
    match fields:
        case [str(ns), str(run), str(key), int(generation), int(attempt), str(secret)]:
            return Token(ns, run, key, generation, attempt, secret)
        case _:
            raise InvalidToken(value=text)
