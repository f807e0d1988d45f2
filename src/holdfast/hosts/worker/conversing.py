"""How a run in hand is talked to: updates are judged, queries look at what is stored.

An update is offered to the body while nothing in it is ready. Refused, it leaves a reply beside it
in the inbox, and nothing in the history. Without a handler it waits: it counts as read, so that
the run can park, and whoever takes the run over is given it again with the history.
"""

from __future__ import annotations

import asyncio

from holdfast.hosts.worker import updates
from holdfast.hosts.worker.held import Held
from holdfast.hosts.worker.turn import Draft
from holdfast.hosts.worker.updates import Visitor
from holdfast.machine.looking import Look, Seen
from holdfast.model.run import ROW_ONLY, Message


class Conversing(Held):
    """A run in hand that is talked to."""

    __slots__ = ()

    # --- updates

    def _offer(self, draft: Draft, update: Message) -> None:
        """Have the body take an update that came, refuse it, or let it wait for a handler."""
        if update.name in self.machine.awaited_updates():
            self._decide(draft, update)
        else:
            self._waiting = (*self._waiting, update)

    def _admit(self, draft: Draft) -> None:
        """Have the body decide on updates that waited for a handler it has registered by now."""
        while found := [m for m in self._waiting if m.name in self.machine.awaited_updates()]:
            update = found[0]
            self._waiting = tuple(other for other in self._waiting if other is not update)
            self._decide(draft, update)

    def _decide(self, draft: Draft, update: Message) -> None:
        machine = self.machine
        if machine.handlers is None:
            return
        refusal = machine.handlers.judge(update.name, update.payload)
        if refusal is not None:
            updates.reject(draft, update, refusal)
            return
        machine.feed(updates.accept(draft, update))
        if machine.notes:
            self._note(draft)

    def _note(self, draft: Draft) -> None:
        """Record what the body said on the event it was just fed."""
        notes, self.machine.notes = self.machine.notes, ()
        for note in notes:
            self.machine.feed(updates.add_note(draft, note))

    # --- queries

    async def visit(self, look: Look) -> Seen | None:
        """Look at the body when all that it has seen is stored; None if it is out of hand."""
        if self.state == "parked":
            return await self._visit_parked(look)
        if self.state != "held" or self._must_read:
            return None
        if self._flight is None:
            return self._looked(look)
        seen: asyncio.Future[Seen | None] = asyncio.get_running_loop().create_future()
        self._visitors = [*(self._visitors or ()), Visitor(look, seen)]
        return await seen

    async def _visit_parked(self, look: Look) -> Seen | None:
        """Look at the body of a run that was parked here, if nobody has taken it since."""
        loaded = await self._worker.store.load(self.run.ns, self.run.id, ROW_ONLY)
        if loaded is None or not self.run.is_same_as(loaded.run):
            return None
        if (loaded.run.seq, loaded.run.epoch) != (self.seq, self.run.epoch):
            return None
        is_here = self.state == "parked" and not (self._must_read or self.machine.loop.dead)
        return self._looked(look) if is_here else None

    def _looked(self, look: Look) -> Seen:
        seen = look(self.machine)
        if seen.is_spoilt:
            self.must_reread()
        return seen

    def _receive_visitors(self, visitors: list[Visitor]) -> None:
        """Let those look who waited for a commit; those who cannot look here are sent away."""
        self._visitors = None
        for visitor in visitors:
            is_here = self.state == "held" and not self._must_read
            if not visitor.seen.done():
                visitor.seen.set_result(self._looked(visitor.look) if is_here else None)
