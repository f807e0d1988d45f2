"""What the machine's tests share: a fake step, and a driver that feeds and keeps a history."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

from holdfast.errors import StepFailed
from holdfast.machine.machine import Machine, current
from holdfast.machine.paranoid import check_replay, twin_of
from holdfast.machine.spin import Sorter
from holdfast.machine.values import Signature
from holdfast.model.asks import Ended, Turn
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


class Step:
    """A step's definition, without anything to run it."""

    def __init__(self, function: Callable[..., Any], *, raises: type[Exception] | None = None):
        self.name = function.__name__
        self.signature = Signature.of(function)
        self.raises = raises

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine = current()
        assert machine is not None, f"{self.name} was called outside of a body"
        return machine.call(self, args, kwargs)

    def error_of(self, failure: Failure, key: str) -> Exception:
        failed = StepFailed(step=key, type=failure.type, message=failure.message)
        if self.raises is None or failure.type != self.raises.__name__:
            return failed
        error = self.raises(failure.message)
        error.__cause__ = failed
        return error


@Step
def work(x: int = 0) -> int:
    return x


@Step
def ship(x: int = 0) -> int:
    return x


@Step
def pack(x: int = 0) -> int:
    return x


class Driver:
    """Feeds one machine, keeps what it fed, and checks after each event that replay agrees."""

    def __init__(self, body: Callable[..., Any], *args: Any, paranoid: bool = True) -> None:
        self.paranoid = paranoid
        self.history: list[Event] = []
        signature = Signature.of(body)
        self.machine = Machine(body, signature, ns="test", run="run-1")
        self.at = START
        self.given: list[str] = []
        self.add("run.started", payload=signature.encode(args, {}))

    def add(self, kind: Any, key: str = "", value: Any = None, **fields: Any) -> Turn:
        event = Event(kind, at=self.at, key=key, seq=len(self.history) + 1, **fields)
        self.history.append(event)
        self.machine.feed(event)
        notes, self.machine.notes = self.machine.notes, ()
        for note in notes:
            self.history.append(note._replace(seq=len(self.history) + 1))
            self.machine.feed(self.history[-1])
        if self.paranoid:
            check_replay(self.machine, self.history)
        turn = self.machine.take_turn()
        self.given += [ask.key for ask in turn.asks]
        return turn

    def complete(self, key: str, value: Any = 0) -> Turn:
        ask = self.machine.asks[key]
        payload = ask.step.signature.result.encode(value, where="result")
        return self.add("step.completed", key, payload=payload, digest=ask.digest)

    def fail(self, key: str, type: str = "Boom", message: str = "no") -> Turn:
        payload = encode_failure(Failure(type=type, message=message))
        return self.add("step.failed", key, payload=payload, digest=self.machine.asks[key].digest)

    def fire(self) -> Turn:
        timer = self.machine.next_timer()
        assert timer is not None
        self.at = max(self.at, timer[0])
        return self.add("timer.fired", timer[1])

    def signal(self, name: str, payload: bytes) -> Turn:
        return self.add("signal.received", f"{name}/m{len(self.history)}", payload=payload)

    def cancel(self) -> Turn:
        return self.add("cancel.requested")

    def finish(self, limit: int = 10_000) -> Ended:
        """Answer every step with its own argument or 0, and fire every timer, to the end."""
        for _ in range(limit):
            if self.machine.ended:
                return self.machine.ended
            if self.machine.asks:
                self.complete(next(iter(self.machine.asks)))
            else:
                self.fire()
        raise AssertionError(f"no end after {limit} events")

    @property
    def result(self) -> Any:
        ended = self.machine.ended
        assert ended is not None
        assert ended.status == "completed", ended
        return self.machine.signature.result.decode(ended.payload or b"null", where="result")

    @property
    def waits(self) -> list[str]:
        timers = [timer.key for timer in self.machine.loop.timers]
        return [*self.machine.asks, *timers, *self.machine.awaited_signals()]


def replay(driver: Driver) -> Machine:
    """Return a second machine, fed with all the first one saw."""
    twin = twin_of(driver.machine)
    twin.feed_all(driver.history)
    return twin


def numbered(events: list[Event]) -> list[Event]:
    return [event._replace(seq=seq) for seq, event in zip(itertools.count(1), events)]


def hooks_of_host() -> tuple[Any, Any]:
    """Return the hooks for asynchronous generators that the host of machines has set."""
    first, last = sys.get_asyncgen_hooks()
    return (first.outer if isinstance(first, Sorter) else first), last
