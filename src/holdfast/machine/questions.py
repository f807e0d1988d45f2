"""Questions: a body asks people something, and waits for a typed answer through any restart.

A question takes its key at the call, as a step does (`ask#1`), and is open until somebody answers
it, it times out, or the body gives it up. Its time-out and its escalations are durable timers under
keys of their own (`ask#1/timeout`, `ask#1/escalate#1`), so that giving a question one more leaves
all other keys as they are. The host keeps open questions where people find them.
"""

from __future__ import annotations

import json
from asyncio import Future
from collections.abc import Coroutine, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from holdfast.errors import (
    BadDefinition,
    HoldfastError,
    InvalidName,
    InvalidValue,
    PayloadTooLarge,
    TooManyAsks,
    Undecodable,
)
from holdfast.machine.asking import MAX_ASKS
from holdfast.machine.machine import Machine
from holdfast.machine.primitives import here
from holdfast.machine.tasks import transparent
from holdfast.machine.timers import Timer
from holdfast.machine.values import Schema, digest, encoded
from holdfast.model.durations import Duration, microseconds
from holdfast.model.events import Event
from holdfast.model.waits import Asked, answer_in

if TYPE_CHECKING:
    from typing import _SpecialForm  # pyright: ignore[reportPrivateUsage]

T = TypeVar("T")
D = TypeVar("D")

NO_DEFAULT: Final = object()
LONGEST_QUESTION = 4_000
LARGEST_DETAILS = 64 * 1024
LONGEST_NAME = 255


class Question:
    """An open question: what is asked, of whom, until when, and who in the body waits for it."""

    __slots__ = (
        "_asked", "asked_at", "asked_seq", "details", "digest", "expires_at", "future", "key",
        "schema", "text", "to",
    )  # fmt: skip

    def __init__(self, key: str, text: str, schema: Schema[Any], details: bytes) -> None:
        self.key, self.text, self.schema, self.details = key, text, schema, details
        self.digest = digest(json.dumps(text).encode() + details) + schema.digest
        self.to: tuple[str, ...] = ()
        self.expires_at: int | None = None
        self.asked_seq = self.asked_at = 0
        self.future: Future[Any] | None = None
        self._asked = b""

    def asked(self) -> bytes:
        """Return what people, and programs without this code, need to know to answer."""
        if not self._asked:
            details = json.loads(self.details)
            self._asked = Asked(self.text, details, self.schema.json_schema()).encoded()
        return self._asked

    def decode(self, value: bytes) -> Any:
        """Return an answer as the body gets it. Raises `InvalidValue`."""
        return self.schema.decode(value, where=f"answer to {self.key}")

    def escalate(self, name: str) -> None:
        """Ask somebody else, too."""
        if name not in self.to:
            self.to = (*self.to, name)

    def expire(self) -> None:
        """Nobody answered in time."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(TimeoutError(f"nobody answered {self.key} in time"))


class Outside:
    """What one body waits for somebody outside to settle: questions, and steps that others end."""

    __slots__ = ("_machine", "_steps", "questions")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._steps: dict[str, None] = {}
        self.questions: dict[str, Question] = {}

    def add_step(self, key: str) -> None:
        """Note that a step was called that others may complete."""
        self._steps[key] = None

    def steps(self) -> list[str]:
        """Return the keys of the steps that others may complete, and that the body waits for."""
        machine, asks = self._machine, self._machine.asks
        found = [key for key in self._steps if key in asks]
        if len(found) < len(self._steps):  # some have ended, or are called and not yet begun
            self._steps = {
                key: None for key in self._steps if key in asks or machine.is_tracked(key)
            }
        return found

    def take(self, event: Event) -> None:
        """Give the recorded answer to whoever waits for it. Raises `ReplayMismatch`."""
        question = self.questions.get(event.key)
        if question is None or question.future is None:
            raise self._machine.mismatch(f"the answer to {event.key}")
        if not self.waits_for(event):
            told = f"asks {event.key} in other words, or with other details"
            raise self._machine.mismatch(f"the answer to {event.key}", told)
        try:
            value = question.decode(answer_in(event.payload or b"")[1])
        except (HoldfastError, ValueError) as error:
            what, problem = f"the answer to {event.key}", str(error.args[0])
            raise Undecodable(seq=event.seq, what=what, problem=problem) from error
        del self.questions[event.key]
        question.future.set_result(value)

    def waits_for(self, event: Event) -> bool:
        """Tell whether this answer would be accepted now."""
        question, found = self.questions.get(event.key), event.digest or b""
        if question is None:
            return False
        return found == question.digest or found[8:] != question.digest[8:]

    def fingerprint(self) -> tuple[Any, ...]:
        """Return what is asked of whom: equal for equal histories."""
        return tuple(
            (each.key, each.digest, each.asked_seq, each.to, each.expires_at)
            for each in self.questions.values()
        )


def outside_of(machine: Machine) -> Outside:
    """Return what the body of `machine` waits for from outside."""
    if machine.outside is None:
        machine.outside = Outside(machine)
    return machine.outside


# As `async def`: mypy gives Any for asyncio.gather over what spells out Coroutine.
@overload
async def ask(
    question: str, answer: type[bool] = ..., *, to: str | Sequence[str] = ...,
    details: object = ..., timeout: Duration | None = ...,
    escalate: Mapping[str, Duration] = ..., name: str = ...,
) -> bool: ...  # fmt: skip
@overload
async def ask(
    question: str, answer: type[bool] = ..., *, to: str | Sequence[str] = ...,
    details: object = ..., timeout: Duration, default: D,
    escalate: Mapping[str, Duration] = ..., name: str = ...,
) -> bool | D: ...  # fmt: skip
@overload
async def ask(
    question: str, answer: type[T], *, to: str | Sequence[str] = ..., details: object = ...,
    timeout: Duration | None = ..., escalate: Mapping[str, Duration] = ..., name: str = ...,
) -> T: ...  # fmt: skip
@overload
async def ask(
    question: str, answer: type[T], *, to: str | Sequence[str] = ..., details: object = ...,
    timeout: Duration, default: D, escalate: Mapping[str, Duration] = ..., name: str = ...,
) -> T | D: ...  # fmt: skip
# Literal["yes", "no"] and `int | str` are no types to a checker: say what the answer is kept in.
@overload
async def ask(
    question: str, answer: _SpecialForm | UnionType, *, to: str | Sequence[str] = ...,
    details: object = ...,
    timeout: Duration | None = ..., default: object = ..., escalate: Mapping[str, Duration] = ...,
    name: str = ...,
) -> Any: ...  # fmt: skip
def ask(  # noqa: PLR0913 - each by its name
    question: str,
    answer: Any = bool,
    *,
    to: str | Sequence[str] = (),
    details: object = None,
    timeout: Duration | None = None,
    default: object = NO_DEFAULT,
    escalate: Mapping[str, Duration] | None = None,
    name: str = "ask",
) -> Coroutine[Any, Any, Any]:
    """Ask people, and return the answer: a bool, or what else `answer` is a type of.

    `to` says who is asked, `details` is what they need to see. `escalate={"boss": 3600}` asks the
    boss too, if there is no answer an hour after the question; whoever answers first decides. After
    `timeout` it raises `TimeoutError`, or returns `default` if one is given. `name` is the first
    part of its key. `run.answer(key, ...)` and `holdfast approve` answer it.
    """
    machine = here("hf.ask()")
    made = _checked(question, answer, details, name)
    made.to = _names(to)
    later = sorted(_escalations(escalate or {}), key=lambda each: each[0])
    limit = None if timeout is None else microseconds(timeout, field="hf.ask timeout")
    if limit is None and default is not NO_DEFAULT:
        raise BadDefinition(
            what="hf.ask was given a default and no timeout",
            hint="Say after how long the default counts: timeout=...",
        )
    made.key = machine.take_key(name)
    return machine.track(made.key, _ask(machine, made.key, made, limit, later, default))


@transparent
async def _ask(
    machine: Machine,
    key: str,
    question: Question,
    limit: int | None,
    later: Sequence[tuple[int, str]],
    default: object,
) -> Any:
    machine.begin(key)
    outside = outside_of(machine)
    if len(outside.questions) + len(machine.asks) >= MAX_ASKS:
        raise TooManyAsks(key=key, limit=MAX_ASKS)
    loop, now = machine.loop, machine.now
    question.asked_at, question.asked_seq = now, machine.seq
    future = question.future = Future(loop=loop)
    outside.questions[key] = question
    timers: list[Timer] = []
    for place, (delay, name) in enumerate(later, start=1):
        escalation = f"{key}/escalate#{place}"
        timers.append(loop.schedule(escalation, now + delay, question.escalate, (name,)))
    if limit is not None:
        question.expires_at = now + limit
        timers.append(loop.schedule(f"{key}/timeout", now + limit, question.expire))
    try:
        return await future
    except TimeoutError:
        if default is NO_DEFAULT:
            raise
        return default
    finally:
        outside.questions.pop(key, None)
        for timer in timers:
            timer.cancel()


def _checked(question: object, answer: Any, details: object, name: object) -> Question:
    if not isinstance(question, str) or not question.strip():
        raise _wrong("question", f"{question!r:.60} is no question", "Give the words people see.")
    if len(question) > LONGEST_QUESTION:
        problem = f"{len(question):,} characters, and the limit is {LONGEST_QUESTION:,}"
        raise _wrong("question", problem, "Put what people need to see into details=.")
    if not isinstance(name, str) or not name.isidentifier():
        hint = 'Give a name such as "refund": it is the first part of the key.'
        raise _wrong("name", f"{name!r:.60} is no name", hint)
    schema: Schema[Any] = Schema.of(answer)
    schema.build()
    return Question("", question, schema, _encoded(details))


def _encoded(details: object) -> bytes:
    where = "details of hf.ask"
    payload = encoded(details, where=where)
    if len(payload) > LARGEST_DETAILS:
        raise PayloadTooLarge(where=where, size=len(payload), limit=LARGEST_DETAILS)
    return payload


def _names(to: object) -> tuple[str, ...]:
    given = (to,) if isinstance(to, str) and to else tuple(cast("Sequence[object]", to))
    return tuple(dict.fromkeys(checked_person(each, field="to of hf.ask") for each in given))


def checked_person(name: object, *, field: str) -> str:
    """Return the name of somebody, if it can be stored and shown. Raises `InvalidName`."""
    problem = ""
    if not isinstance(name, str):
        raise InvalidName(field=field, value=repr(name), problem="is no text")
    if not 1 <= len(name) <= LONGEST_NAME:
        problem = f"has {len(name)} characters"
    elif not name.isprintable():
        problem = "has a character that cannot be printed"
    if problem:
        raise InvalidName(field=field, value=name, problem=problem)
    return name


def _escalations(escalate: object) -> list[tuple[int, str]]:
    if not isinstance(escalate, Mapping):
        hint = 'Give who is asked after how long: escalate={"boss": timedelta(hours=4)}.'
        raise _wrong("escalate", f"{escalate!r:.60} is no mapping", hint)
    given = cast("Mapping[object, Any]", escalate)
    return [
        (
            microseconds(delay, field="hf.ask escalate"),
            checked_person(name, field="escalate of hf.ask"),
        )
        for name, delay in given.items()
    ]


def _wrong(path: str, problem: str, hint: str) -> InvalidValue:
    return InvalidValue(where="hf.ask", path=path, problem=problem, hint=hint)
