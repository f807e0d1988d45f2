"""Signals: typed messages to a run, and the mailbox in which they wait.

A signal may come before the body waits for it. It is kept as it came, in order, until somebody
waits for its name; only then is its type known, and it is decoded. Waiters of one name are served
in the order in which they began to wait.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from holdfast.errors import HoldfastError, InvalidName
from holdfast.machine.values import Schema

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
NAME_LIMIT = 255


class Carries(Protocol[T_co]):
    """A signal as one who waits sees it: where an object will do, an int is as good.

    To one who sends, `Signal` is of just one type: its value must be of that type.
    """

    @property
    def name(self) -> str:
        """The name of the message."""
        ...

    @property
    def type(self) -> type[T_co]:
        """What the message carries."""
        ...


class BoundMessage(NamedTuple):
    """A message with what it carries, checked and ready to be sent."""

    kind: str
    name: str
    payload: bytes
    id: str | None = None


class Signal(Generic[T]):
    """The name of a message and the type of what it carries."""

    __slots__ = ("name", "schema", "type")

    def __init__(self, name: str, type: type[T]) -> None:
        problem = name_problem(name)
        if problem:
            raise InvalidName(field="signal name", value=str(name), problem=problem)
        self.name, self.type = name, type
        self.schema: Schema[T] = Schema.of(type)

    def bind(self, value: T, *, id: str | None = None) -> BoundMessage:
        """Return the signal with what it carries, to be sent with a start.

        Give an `id` to make a repeat harmless.
        """
        return BoundMessage("signal", self.name, self.encode(value), id)

    def encode(self, value: T) -> bytes:
        """Return what is sent, checked against the annotation."""
        return self.schema.cross(value, where=f"signal {self.name}")[0]

    def __repr__(self) -> str:
        return f"Signal({self.name!r}, {getattr(self.type, '__name__', self.type)})"


def name_problem(name: object) -> str:
    """Say what keeps a name from being stored, or nothing."""
    if not isinstance(name, str):
        return "is no text"
    if not name:
        return "is empty"
    if len(name) > NAME_LIMIT:
        return f"has {len(name)} characters"
    if "/" in name or name.startswith("."):
        return "has a slash or a leading dot"
    return "" if name.isprintable() else "has a character that cannot be printed"


class Letter(NamedTuple):
    """A signal as it came."""

    id: str
    payload: bytes
    seq: int = 0
    """The event that brought it."""


class _Waiter:
    __slots__ = ("future", "letter", "signal")

    def __init__(self, signal: Signal[Any], future: Future[Any]) -> None:
        self.signal, self.future = signal, future
        self.letter: Letter | None = None


class Mailbox:
    """What came and was not awaited yet, and who waits for what has not come.

    Kept small, because there may be thousands of runs that wait: most have one waiter.
    """

    __slots__ = ("_kept", "_machine", "_waiters")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._kept: dict[str, list[Letter]] | None = None
        self._waiters: list[_Waiter] = []

    def put(self, name: str, letter: Letter, *, front: bool = False) -> None:
        """Give `letter` to the first waiter who can read it, or keep it."""
        for waiter in self._waiters:
            if waiter.signal.name == name and not waiter.future.done():
                self._hand_over(waiter, letter)
                return
        if self._kept is None:
            self._kept = {}
        kept = self._kept.setdefault(name, [])
        kept.insert(0 if front else len(kept), letter)

    async def wait(self, signal: Signal[T]) -> T:
        """Return what the next signal of that name carries."""
        for letter in self._take_kept(signal.name):
            try:
                return signal.schema.decode(letter.payload, where=_where(signal))
            except HoldfastError as error:
                self._warn(signal, letter, error)
        loop = self._machine.loop
        if loop.dead:
            loop.refuse()
        # Not by create_future, which looks at frames and so keeps them in memory.
        waiter = _Waiter(signal, Future(loop=loop))
        self._waiters.append(waiter)
        try:
            value: T = await waiter.future
        except BaseException:
            self._leave(waiter)
            raise
        return value

    def awaited(self) -> tuple[str, ...]:
        """Return the names somebody waits for."""
        return tuple(dict.fromkeys(waiter.signal.name for waiter in self._waiters))

    def unread(self) -> list[tuple[str, Letter]]:
        """Return what nobody has taken, by name, in the order in which it came."""
        kept = [(name, letter) for name, them in (self._kept or {}).items() for letter in them]
        return sorted(kept, key=lambda each: each[1].seq)

    def _hand_over(self, waiter: _Waiter, letter: Letter) -> None:
        signal = waiter.signal
        try:
            value = signal.schema.decode(letter.payload, where=_where(signal))
        except HoldfastError as error:
            self._warn(signal, letter, error)
            return
        self._waiters.remove(waiter)
        waiter.letter = letter
        waiter.future.set_result(value)

    def _take_kept(self, name: str) -> Any:
        while self._kept and (kept := self._kept.get(name)):
            letter = kept.pop(0)
            if not kept:
                del self._kept[name]
            yield letter

    def _leave(self, waiter: _Waiter) -> None:
        """Forget a waiter who was cancelled; what it was given goes to the next."""
        if waiter.letter is not None:
            self.put(waiter.signal.name, waiter.letter, front=True)
        elif waiter in self._waiters:
            self._waiters.remove(waiter)

    def _warn(self, signal: Signal[Any], letter: Letter, error: HoldfastError) -> None:
        self._machine.warnings += (
            f"signal {signal.name} (message {letter.id}) was dropped: {error.args[0]}",
        )


def _where(signal: Signal[Any]) -> str:
    return f"signal {signal.name}"
