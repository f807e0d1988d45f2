"""The machine: one body, the events it was fed, and what it asks for.

A body is one async function that runs on a loop of ours. It is fed the events of its history one by
one, the same way live as in replay, and after each it runs until nothing in it is ready. Then it
waits, and everything it waits for is known: steps, timers, signals. The machine does no I/O, has no
clock and no chance of its own, so equal histories leave equal machines behind.

That is checked, not hoped for. An answer must be for something the body waits for at that moment,
and the answer to a step names the arguments it was asked with, by digest. Anything else means that
the code has changed under the history, and raises `ReplayMismatch`.

A machine is closed, never left to the garbage collector, which would go on with the body's clean-up
code where its steps are plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.errors import HoldfastError, ReplayMismatch, Undecodable
from holdfast.machine import children
from holdfast.machine.afterwards import Afterwards
from holdfast.machine.asking import MISSING, NOTHING, NOTHING_AHEAD, Asking
from holdfast.machine.changes import Changes, changes_of
from holdfast.machine.decisions import Decisions, decisions_of
from holdfast.machine.ending import ended_of
from holdfast.machine.handlers import Handlers, handlers_of
from holdfast.machine.lines import Lines
from holdfast.machine.loop import Loop
from holdfast.machine.signals import Letter, Mailbox
from holdfast.machine.spin import running_loop
from holdfast.machine.tasks import (
    Task,
    half_way,
    is_closed,
    retire,
    unfinished,
    unwind_generator,
)
from holdfast.machine.values import Signature
from holdfast.model.asks import StepAsk
from holdfast.model.events import Event
from holdfast.model.failures import decode_failure
from holdfast.model.run import ENDS_OF_UPDATES
from holdfast.model.settings import Guard
from holdfast.model.travel import Edit

if TYPE_CHECKING:
    from holdfast.machine.questions import Outside
    from holdfast.machine.sagas import Sagas

Body = Callable[..., Coroutine[Any, Any, Any]]

SAID = ("note.decided", "note.checkpoint")
LISTED = 5
"""How many awaited things a message names."""


def current() -> Machine | None:
    """Return the machine whose body is running right now, if one is."""
    loop = running_loop()
    return loop.machine if type(loop) is Loop else None


class Machine(Asking):
    """One run's body: fed with events, asked for what it wants. See the module's theory."""

    __slots__ = ("_is_inside", "_mailbox", "afterwards", "base", "began", "body", "cancelled_by",
                 "changes", "decisions", "edits", "generation", "guard", "handlers", "is_quiet",
                 "lines", "notes", "ns", "outside", "past", "run", "sagas", "seeds", "signature",
                 "slot", "unawaited", "violation", "warnings")  # fmt: skip

    def __init__(
        self, body: Body, signature: Signature, *, ns: str, run: str, guard: Guard = "raise"
    ) -> None:
        super().__init__()
        self.body, self.signature = body, signature
        self.ns, self.run = ns, run
        self.guard: Guard = guard
        self.violation: HoldfastError | None = None
        self.warnings: tuple[str, ...] = ()
        self.lines: Lines | None = None
        self.afterwards: list[Afterwards] | None = None
        self.is_quiet = False
        self.unawaited: tuple[str, ...] = ()
        self.loop = Loop(self)  # type: ignore[abstract]
        self._mailbox: Mailbox | None = None
        self.changes: Changes | None = None
        self.decisions: Decisions | None = None
        self.sagas: Sagas | None = None
        self.handlers: Handlers | None = None
        self.outside: Outside | None = None
        self.notes: tuple[Event, ...] = ()
        self.past: Sequence[Event] | None = None
        self.seeds: tuple[tuple[int, str], ...] | None = None
        self.edits: dict[tuple[int, str], Edit] | None = None
        self.generation = self.began = self.base = 1
        self.cancelled_by = self.slot = ""
        self._is_inside = False

    # --- what a host does with it

    def feed(self, event: Event, value: object = MISSING) -> None:
        """Let the body see `event` and run until nothing in it is ready.

        `value` is the decoded result of a step, when the host has it already. Marks only move
        `seq`; a note is compared with what the body said. Raises `ReplayMismatch`, `Undecodable`
        or what the body may not go on with; close the machine then.
        """
        self.seq = event.seq
        take = self._TAKERS.get(event.kind)
        if take is None:
            return
        self.now = event.at
        take(self, event, value)

    def feed_all(
        self, events: Sequence[Event], generation: int = 1, *, is_new: bool = False
    ) -> tuple[int, ...]:
        """Feed a stored history: the same as feeding its events one by one, and faster.

        `is_new` says that no body has ever been fed these events, so that nothing was asked for
        in their turns yet: such a body takes up every change of the code.

        Answers of an earlier generation that the body does not wait for are left out: it came to
        them by way of a failure that no longer counts. Their seqs are returned.

        A step that is asked for while nothing else in the body is ready, and whose result is the
        next event, gets it at once instead of waiting to be fed: see `Asking._ask`.
        """
        self._ahead = iter(events)
        self.is_quiet = len(events) > 1
        self.generation, self.past = generation, None if is_new else events
        left_out: list[int] = []
        turns: set[int] = set()
        try:
            with self.entered():
                self._next = next(self._ahead, None)
                while (event := self._next) is not None:
                    self._next = next(self._ahead, None)
                    if event.generation < generation and self._is_past(event, turns):
                        left_out.append(event.seq)
                        turns.add(event.asked_seq if event.kind in SAID else event.seq)
                    else:
                        self.feed(event)
                        if (heard := self._heard) is not None and heard.seq > self.seq:
                            self.seq, self.now = heard.seq, heard.at
        finally:
            self._ahead, self._next, self._heard, self.past = NOTHING_AHEAD, None, None, None
            self.is_quiet = False
        if self.handlers is not None:
            self.notes += self.handlers.unrecorded()
        if self.decisions is not None:
            self.notes += self.decisions.unrecorded()
        return tuple(left_out)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Enter the loop once for several events that are fed one after another."""
        outside = self.loop.enter()
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False
            self.loop.leave(outside)

    def next_timer(self) -> tuple[int, str] | None:
        """Return due time and key of the timer that fires next."""
        return None if self.loop.dead else self.loop.timers.earliest()

    def awaited_signals(self) -> tuple[str, ...]:
        """Return the names of the signals the body waits for."""
        return self._mailbox.awaited() if self._mailbox and not self.loop.dead else ()

    def awaited_updates(self) -> tuple[str, ...]:
        """Return the names of the updates the body takes."""
        return self.handlers.takes if self.handlers and not self.is_over else ()

    @property
    def is_over(self) -> bool:
        """Tell whether the body has ended, or was closed: it takes no more updates."""
        main = self.loop.main
        return self.loop.dead or main is None or main.done()

    def awaited_children(self) -> Iterator[str]:
        """Yield the ids of the children the body waits for."""
        return self.children.awaited() if self.children and not self.loop.dead else iter(())

    def awaited_answers(self) -> tuple[str, ...]:
        """Return the keys of the questions that are open."""
        return tuple(self.outside.questions) if self.outside and not self.loop.dead else ()

    def is_stuck(self) -> bool:
        """Tell whether the body waits, but for nothing that can ever come."""
        loop = self.loop
        if self.ended or loop.dead or not loop.main or self.asks:
            return False
        if loop.timers or self.awaited_signals() or self.awaited_updates():
            return False
        return not self.awaited_answers() and not any(self.awaited_children())

    def fingerprint(self) -> tuple[Any, ...]:
        """Return all the body waits for, or how it ended: equal for equal histories."""
        ended = self.ended
        asks = tuple((key, ask.digest, ask.asked_seq) for key, ask in self.asks.items())
        timers = tuple((timer.key, timer.due) for timer in self.loop.timers)
        failed = ended.failure.type if ended and ended.failure else ""
        end = ended and (ended.status, ended.payload, failed, ended.leftovers)
        changes = self.changes.told() if self.changes else ()
        handlers = self.handlers.told() if self.handlers else ()
        kin = self.children.told() if self.children else ()
        questions = self.outside.fingerprint() if self.outside and not self.loop.dead else ()
        return (asks, timers, self.awaited_signals(), end, changes, handlers, kin, questions)

    def close(self) -> None:
        """End the body without letting it ask for anything more. May be called again."""
        loop = self.loop
        if not loop.dead or loop.tasks or loop.generators or self._unstarted:
            outside = loop.enter()
            try:
                self._retire(cancel=False)
            finally:
                loop.leave(outside)
        loop.forget()
        self.asks, self._futures, self._fresh, self._mailbox = NOTHING, NOTHING, NOTHING, None
        self.outside = None
        self.violation = self.changes = self.sagas = self.handlers = self.children = (
            None  # their frames and their machine
        )
        self.decisions = None

    # --- what a body does with it

    @property
    def mailbox(self) -> Mailbox:
        """The signals that came, and who waits for some."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self)
        return self._mailbox

    # --- the events

    def _start(self, event: Event, _: object) -> None:
        loop = self.loop
        if loop.main is not None or loop.dead:
            raise self.mismatch("the start of the run", "has started already")
        try:
            args, kwargs = self.signature.decode(event.payload or b"{}")
        except HoldfastError as error:
            raise Undecodable(seq=event.seq, what="the input", problem=error.args[0]) from error
        loop.start = event.at
        self.base, self.began = event.seq, event.generation
        if event.key:
            children.descend(self, event)
        loop.begin(self.body(*args, **kwargs))
        self.spin()

    def _complete(self, event: Event, value: object) -> None:
        key = event.key
        ask = self.asks.get(key)
        if ask is None or ask.digest != event.digest:
            ask = self._answered(event, "the result of step ")
        if value is MISSING:
            value = self._decoded(ask.step, event)
        del self.asks[key]
        if self._fresh:
            self._fresh.pop(key, None)
        self._futures.pop(key).set_result(value)
        self.spin()

    def _fail(self, event: Event, _: object) -> None:
        ask = self._answered(event, "the failure of step ")
        try:
            raised = ask.step.error_of(decode_failure(event.payload), ask.key)
        except (ValueError, TypeError, HoldfastError) as error:
            what = f"the failure of {ask.key}"
            raise Undecodable(seq=event.seq, what=what, problem=str(error)) from error
        self._settle(ask.key).set_exception(raised)
        self.spin()

    def _fire(self, event: Event, _: object) -> None:
        timer = self.loop.timers.pop(event.key)
        if timer is None or self.loop.dead:
            raise self.mismatch(f"the firing of timer {event.key}")
        self.loop.fire(timer)
        self.spin()

    def _receive(self, event: Event, _: object) -> None:
        if self.loop.dead:
            return
        name, _slash, message = event.key.partition("/")
        self.mailbox.put(name, Letter(message, event.payload or b"null", event.seq))
        self.spin()

    def _cancel(self, event: Event, _: object) -> None:
        # A state, not a blow: a second one would hit the clean-up after the first.
        if self.cancelled_by or self.loop.dead or self.loop.main is None:
            return
        self.cancelled_by = event.kind
        self.loop.main.cancel()
        self.spin()

    def _hear(self, event: Event, _: object) -> None:
        changes_of(self).compare(event)

    def _hear_decision(self, event: Event, _: object) -> None:
        (self.decisions or decisions_of(self)).compare(event)

    def _hear_mark(self, event: Event, _: object) -> None:
        if self.decisions is not None:
            self.decisions.hear(event)

    def _accept(self, event: Event, _: object) -> None:
        if not self.loop.dead:
            handlers_of(self).accept(event)
            self.spin()

    def _hear_end(self, event: Event, _: object) -> None:
        handlers_of(self).compare(event)

    def _take_answer(self, event: Event, _: object) -> None:
        if self.outside is None:
            raise self.mismatch(f"the answer to {event.key}")
        self.outside.take(event)
        self.spin()

    # --- which event fits

    def _answered(self, event: Event, recorded: str) -> StepAsk:
        """Return the ask this event answers. Raises `ReplayMismatch` if the body made none such."""
        ask = self.asks.get(event.key)
        if ask is None:
            raise self.mismatch(recorded + event.key)
        found, asked = event.digest, ask.digest
        if found == asked:
            return ask
        if found is not None and found[8:] == asked[8:]:
            raise self.mismatch(recorded + event.key, f"calls {event.key} with other arguments")
        return ask

    def _is_past(self, event: Event, turns: Container[int]) -> bool:
        """Tell whether an event of a former generation counts no longer: the body went another way.

        `turns` are those in which it did, by the seqs of their events.
        """
        if event.kind == "note.checkpoint":
            return event.asked_seq in turns
        return not self._waits_for(event)

    def _waits_for(self, event: Event) -> bool:
        """Tell whether this answer would be accepted now; what is no answer always is."""
        if event.kind == "timer.fired":
            return event.key in self.loop.timers
        if event.kind in ENDS_OF_UPDATES:
            return self.handlers is not None and self.handlers.has_said(event)
        if event.kind == "note.decided":
            return self.decisions is not None and self.decisions.has_said(event)
        if event.kind == "question.answered":
            return self.outside is not None and self.outside.waits_for(event)
        if event.kind not in ("step.completed", "step.failed"):
            is_of_child = event.kind in ("child.started", "child.closed")
            return not is_of_child or (self.children is not None and self.children.fits(event))
        ask, found = self.asks.get(event.key), event.digest
        return ask is not None and (
            found is None or found == ask.digest or found[8:] != ask.digest[8:]
        )

    def mismatch(self, recorded: str, asked: str = "") -> ReplayMismatch:
        """Return the error of an event that is not for what the body asks for."""
        return ReplayMismatch(
            seq=self.seq, recorded=recorded, asked=asked or self._waits(), source=self.source()
        )

    def _waits(self) -> str:
        """Say in words what the body waits for."""
        if self.ended:
            return "has ended"
        names = [*self.asks, *(timer.key for timer in self.loop.timers)]
        names += [f"signal {name}" for name in self.awaited_signals()]
        names += [f"update {name}" for name in self.awaited_updates()]
        names += [f"child {key}" for key in (self.children.open if self.children else ())]
        names += [f"an answer to {key}" for key in self.awaited_answers()]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        return f"waits for {', '.join(names[:LISTED]) or 'nothing'}{more}"

    # --- running

    def spin(self) -> None:
        """Run the body until nothing in it is ready."""
        loop, is_inside = self.loop, self._is_inside
        outside = () if is_inside else loop.enter()
        try:
            loop.drain()
            if self.violation is not None:
                raise self.violation  # whatever the body caught
            main = loop.main
            if main is not None and main.done() and self.ended is None:
                self._end(main)
        finally:
            if not is_inside:
                loop.leave(outside)

    def _end(self, main: Task) -> None:
        """Know how the body ended, unless its sagas hold it, and end all that is left of it."""
        if self.sagas is not None and self.sagas.hold():
            return
        ended, tasks = ended_of(main, self), self.loop.tasks
        leftovers = tuple([task.label for task in unfinished(tasks)])
        self._retire(cancel=True)
        self.ended = ended._replace(leftovers=leftovers) if leftovers else ended

    def _retire(self, *, cancel: bool) -> None:
        """Make the loop dead and end all that is left on it."""
        loop = self.loop
        loop.dead = True
        while loop.tasks:
            left, loop.tasks = loop.tasks, []
            retire([*unfinished(left)], cancel=cancel)
        while loop.generators:
            abandoned = [each for each in loop.generators if each.ag_frame is not None]
            loop.generators = None
            for generator in reversed(abandoned):
                if cancel:
                    self.warnings += (half_way(generator),)
                unwind_generator(generator)
        if not self._unstarted:
            return
        unstarted, self._unstarted = self._unstarted, NOTHING
        open_calls = {key: call for key, call in unstarted.items() if not is_closed(call)}
        for call in open_calls.values():
            call.close()
        self.unawaited += tuple(open_calls)

    _TAKERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "step.completed": _complete,
        "step.failed": _fail,
        "timer.fired": _fire,
        "run.started": _start,
        "run.continued": _start,
        "signal.received": _receive,
        "cancel.requested": _cancel,
        "deadline.passed": _cancel,
        "child.started": children.started,
        "child.closed": children.closed,
        "note.patched": _hear,
        "note.decided": _hear_decision,
        "note.checkpoint": _hear_mark,
        "update.accepted": _accept,
        "update.completed": _hear_end,
        "update.failed": _hear_end,
        "question.answered": _take_answer,
    }
