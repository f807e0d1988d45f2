"""The filter language: one parser for the client, the command line and whatever comes later.

    status:failed,blocked workflow:checkout tag:vip customer=42 amount>10 since:1h -id:test- lamp

A space means *and*, a comma *or* within a key, a leading `-` *not*; quotes keep spaces together.
Known keys take `:`, attributes take `=`, `>`, `>=`, `<` and `<=`; a word alone is looked for in
id, workflow, reason, tags and attributes. What is parsed is data: a store binds it, and `matches`
says what it means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, NoReturn, get_args

from holdfast.errors import InvalidFilter
from holdfast.model.labels import KEYS, Labels, compared
from holdfast.model.run import Run
from holdfast.model.status import RunStatus

Key = Literal[
    "status", "workflow", "queue", "tag", "since", "before", "id", "reason", "text", "attribute"
]
Operator = Literal[":", "=", ">", ">=", "<", "<="]
Operand = str | int | float

STATUSES: tuple[str, ...] = get_args(RunStatus)
LONGEST, MOST_TERMS, MOST_VALUES = 4_096, 32, 64

HEAD = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<operator>:|!=|>=|<=|=|>|<)")
BARE = re.compile(r"[^\s,\"']+")
QUOTED = re.compile(r"\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
SMALL = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class Term(NamedTuple):
    """One condition: any of `values` will do; `name` is that of an attribute."""

    key: Key
    operator: Operator
    values: tuple[Operand, ...]
    negated: bool = False
    name: str = ""


def parse(text: str, now: int) -> tuple[Term, ...]:
    """Return the terms of a filter, all of which must hold. Raises `InvalidFilter`.

    `now` is what `since:1h` counts from, in microseconds.
    """
    if not isinstance(text, str):
        raise InvalidFilter(text=repr(text), column=1, problem="a filter is a text", hint="")
    return tuple(_Parser(text, now).terms())


def quoted(text: str) -> str:
    """Return a text as one value of a filter, whatever it holds."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def folded(text: str) -> str:
    """Return the text with A to Z made small, as every store can do it."""
    return text.translate(SMALL)


class _Parser:
    def __init__(self, text: str, now: int) -> None:
        self._text, self._now, self._at = text, now, 0

    def terms(self) -> list[Term]:
        self._check_text()
        found: list[Term] = []
        while self._skip_space():
            if len(found) == MOST_TERMS:
                self._fail(f"more than {MOST_TERMS} conditions", "Leave some out.")
            found.append(self._term())
        return found

    def _check_text(self) -> None:
        if len(self._text) > LONGEST:
            self._at = LONGEST
            self._fail(f"more than {LONGEST} characters", "Say less.")
        for at, character in enumerate(self._text):
            if not (character.isprintable() or character in "\t\n"):
                self._at = at
                self._fail(f"{character!r} cannot be in a filter", "Leave it out.")

    def _skip_space(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _is_over(self, at: int) -> bool:
        return at >= len(self._text) or self._text[at].isspace()

    def _term(self) -> Term:
        negated = self._text[self._at] == "-" and not self._is_over(self._at + 1)
        self._at += negated
        head = HEAD.match(self._text, self._at)
        if head is None:
            values = tuple(folded(value) for value, _ in self._values())
            return Term("text", ":", values, negated)
        name, operator = head["name"], head["operator"]
        if operator == ":":
            return self._known(name, head.end(), negated)
        return self._attribute(name, operator, head.end(), negated)

    def _known(self, name: str, end: int, negated: bool) -> Term:
        if name not in KEYS:
            self._fail(f"no key {name!r}{_near(name, KEYS)}", self._advice(name))
        self._at = end
        begin = end
        values = [value for value, _ in self._values()]
        if name in ("since", "before") and len(values) > 1:
            self._at = begin
            self._fail(f"{name} takes one time", "Leave the others out.")
        key: Key = name  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        operands = tuple(self._operand(key, value, begin) for value in values)
        return Term(key, ":", operands, negated)

    def _operand(self, key: Key, value: str, begin: int) -> Operand:
        match key:
            case "status":
                return self._status(value, begin)
            case "since" | "before":
                return self._time(value, begin)
            case "reason":
                return folded(value)
            case _:
                return value

    def _attribute(self, name: str, operator: str, end: int, negated: bool) -> Term:
        if operator == "!=":
            self._fail("'!=' is no operator", f"Write -{name}=... for what it must not be.")
        if name in KEYS:
            self._fail(f"{name} takes ':'", f"Write {name}:{self._text[end : end + 20]}")
        self._at = end
        operands: list[Operand] = []
        for value, is_quoted in self._values():
            number = None if is_quoted else _number(value)
            if number is not None:
                operands.append(number)
            if number is None or operator == "=":
                operands.append(value)
        signed: Operator = operator  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        return Term("attribute", signed, tuple(operands), negated, name)

    def _values(self) -> list[tuple[str, bool]]:
        """Read values up to the next space; each with whether it was quoted."""
        begin, found = self._at, list[tuple[str, bool]]()
        while True:
            found.append(self._value())
            if len(found) > MOST_VALUES:
                self._at = begin
                self._fail(f"more than {MOST_VALUES} values", "Leave some out.")
            if self._text[self._at : self._at + 1] != ",":
                break
            self._at += 1
        if not self._is_over(self._at):
            self._fail("a quote in the middle of a value", "Put all of the value into quotes.")
        return found

    def _value(self) -> tuple[str, bool]:
        if quoted := QUOTED.match(self._text, self._at):
            self._at = quoted.end()
            inside = quoted["double"] if quoted["double"] is not None else quoted["single"]
            return re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL), True
        if self._text[self._at : self._at + 1] in ('"', "'"):
            self._fail("this quote is never closed", "Close it.")
        bare = BARE.match(self._text, self._at)
        if bare is None:
            self._fail("a value is missing", 'Write one; "" is the empty text.')
        self._at = bare.end()
        return bare[0], False

    def _status(self, value: str, begin: int) -> str:
        if value not in STATUSES:
            self._at = begin
            hint = f"There are: {', '.join(STATUSES)}."
            self._fail(f"no status {value!r}{_near(value, STATUSES)}", hint)
        return value

    def _time(self, value: str, begin: int) -> int:
        if ago := AGO.fullmatch(value):
            return max(self._now - int(ago[1]) * UNITS[ago[2]] * 1_000_000, 0)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self._at = begin
            self._fail(f"{value!r} is no time", "Write 1h, 7d, 2026-01-31 or 2026-01-31T12:00.")
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def _advice(self, name: str) -> str:
        return (
            f"Keys are {', '.join(KEYS)}. An attribute is written {name}=value; a word with a "
            f"colon goes into quotes."
        )

    def _fail(self, problem: str, hint: str) -> NoReturn:
        raise InvalidFilter(text=self._text, column=self._at + 1, problem=problem, hint=hint)


def _number(text: str) -> int | float | None:
    if not NUMBER.fullmatch(text) or len(text) > 60:
        return None
    if text.lstrip("+-").isdigit() and abs(int(text)) < 2**63:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else None


def _near(name: str, known: tuple[str, ...]) -> str:
    # Imported late: it is slow to load, and only mistakes need it.
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


# --- what a filter means


def matches(run: Run, labels: Labels, term: Term) -> bool:
    """Tell whether a run fits a term. The other stores say the same in their own language."""
    test = _TESTS[term.key]
    return any(test(run, labels, term, value) for value in term.values) != term.negated


_Test = Callable[[Run, Labels, Term, Operand], bool]


def _has_text(run: Run, labels: Labels, _: Term, value: Operand) -> bool:
    texts = [run.id, run.workflow, run.reason, *labels.tags, *labels.attributes.values()]
    told = (compared(text) for text in texts)
    return any(str(value) in folded(text) for text in told if isinstance(text, str))


def _has_attribute(_: Run, labels: Labels, term: Term, value: Operand) -> bool:
    if term.name not in labels.attributes:
        return False
    mine = compared(labels.attributes[term.name])
    if isinstance(mine, str) != isinstance(value, str):
        return False
    return _COMPARE[term.operator](mine, value)


_COMPARE: Mapping[str, Callable[[Operand, Operand], bool]] = {
    "=": lambda mine, value: mine == value,
    ">": lambda mine, value: mine > value,  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
    ">=": lambda mine, value: mine >= value,  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
    "<": lambda mine, value: mine < value,  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
    "<=": lambda mine, value: mine <= value,  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
}

_TESTS: Mapping[Key, _Test] = {
    "status": lambda run, _, __, value: run.status == value,
    "workflow": lambda run, _, __, value: run.workflow == value,
    "queue": lambda run, _, __, value: run.queue == value,
    "id": lambda run, _, __, value: run.id.startswith(str(value)),
    "reason": lambda run, _, __, value: str(value) in folded(run.reason),
    "since": lambda run, _, __, value: run.created_at >= int(value),
    "before": lambda run, _, __, value: run.created_at < int(value),
    "tag": lambda _, labels, __, value: value in labels.tags,
    "text": _has_text,
    "attribute": _has_attribute,
}
