"""The turn that most turns are: one result comes, and the body asks for more steps.

Of a *bare* run nothing is known that could make a difference: no message, no timer, no retry and no
deadline waits, and nothing is said beside its history (`Held._wait` has the list). Its turns need
not ask for each of these. What comes of them is committed as that of any other; whatever turns out
not to be plain, at any point, goes on the usual way.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.hosts.worker.session import Session
from holdfast.hosts.worker.steps import Result
from holdfast.hosts.worker.turn import Draft
from holdfast.machine import Machine
from holdfast.model.asks import Turn
from holdfast.model.commands import CommitTurn
from holdfast.model.makers import maker
from holdfast.model.writes import Outcome
from holdfast.ports.reply import Answered

_new_command = maker(CommitTurn)


class Plain(Session):
    """A held run whose plain turns are made without ado."""

    __slots__ = ()

    def settle(self, result: Result) -> None:
        """Take the result of an attempt into the next turn."""
        key, running = result.ask.key, self.running
        running.pop(key, None)
        is_free = not (running or self._look or self._flight or self._is_driven)
        is_wanted = result.error is None and key in self.machine.asks
        if is_free and is_wanted and self._is_bare and self.seq < self._long_at:
            try:
                self._turn_plainly(result)
            except Exception as error:
                self._break(error)
        else:
            super().settle(result)

    def _turn_plainly(self, result: Result) -> None:
        machine, is_plain = self.machine, False
        draft = Draft(self.run, self.seq, self._stamp(), self.family, self.ticketed)
        try:
            machine.feed(draft.add_answer(result.ask, result.payload, result.took), result.value)
            if machine.notes:
                self._note(draft)
            if _asks_plainly(machine):
                turn = machine.take_turn()
                is_plain = not turn.dropped
            else:
                turn = self._take_turn(draft)
        except HoldfastError as error:
            self._block(draft, error, ())
            turn = Turn()
        if is_plain:
            command = _command(draft, self.seq, self._worker.id, self.inbox_seq)
            self._flight = (draft, turn, [result], command)
            self._write(command, self._land_plainly)
        else:
            self._finish(draft, turn, [result])

    def _land_plainly(self, answer: Answered[list[Outcome]]) -> None:
        """Start what is asked for now, if nothing else has come meanwhile."""
        is_bare = self._is_bare and self.state == "held"
        if self._flight is None or self._look or not is_bare or self._worker.is_watched:
            self._land(answer)
            return
        try:
            (outcome,) = answer.result()
        except BaseException:  # it is raised again there, and dealt with
            self._land(answer)
            return
        is_more = self._visitors or self._failures or self.run.strikes or self.machine.afterwards
        if is_more or not outcome.applied or outcome.inbox_seq != self.inbox_seq:
            self._land(answer)
            return
        draft, turn, _, _ = self._flight
        self._flight = None
        self.seq += len(draft.events)
        self.last_at = draft.at
        self._start(turn.asks)


def _asks_plainly(machine: Machine) -> bool:
    """Tell whether a body waits for steps and for nothing else, and has nothing to say."""
    if machine.ended or machine.children is not None or machine.outside is not None:
        return False
    return bool(machine.asks) and not (
        machine.warnings or machine.lines or machine.loop.timers.open
    )


def _command(draft: Draft, seq: int, worker: str, known_inbox: int) -> CommitTurn:
    """Return the commit of a turn that only adds events."""
    run = draft.run
    return _new_command((
        run.ns, run.id, worker, run.epoch, seq, tuple(draft.events), draft.at, "running", "",
        None, None, None, 0, (), 0, known_inbox, None, False, (), (), None,
    ))  # fmt: skip
