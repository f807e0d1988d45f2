"""What a turn records that ends one generation of a run and begins the next, in one commit.

Updates whose handlers were not done fail. Then comes the start of the new generation, and what
goes over to it: a pause, and the signals that the body did not take. Their first record is
superseded by the start: of each message one record counts. Messages that came after the body ended
were not read, and wait in the inbox.
"""

from __future__ import annotations

from holdfast.hosts.worker import updates
from holdfast.hosts.worker.turn import Draft
from holdfast.machine import Machine
from holdfast.model.asks import Ended
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure

CUT_SHORT = Failure("UpdateUnfinished", "the run continued as new before its handler was done")


def record(
    draft: Draft, machine: Machine, ended: Ended, shape: bytes, at: int, *, paused: bool
) -> None:
    """Add the start of the next generation to the turn, and what goes over to it."""
    draft.continues = True
    for key in machine.handlers.running if machine.handlers is not None else ():
        updates.add_note(draft, Event("update.failed", at, key, encode_failure(CUT_SHORT)))
    draft.run = draft.run._replace(generation=draft.run.generation + 1)  # of all that is added now
    descent = draft.family.descent if draft.family is not None else ""
    start = draft.add(Event("run.continued", at, descent, ended.payload, digest=shape))
    if draft.family is not None and draft.family.has_children:
        draft.send(draft.family.departure(draft.run, start))
    unread = machine.mailbox.unread()
    # What a retry had left to supersede is of the generation that ends here.
    draft.supersedes = (*draft.supersedes, *(letter.seq for _, letter in unread))
    draft.superseded_by = start.seq
    if paused:
        draft.add(Event("run.paused", at))
    for name, letter in unread:
        draft.add(Event("signal.received", at, f"{name}/{letter.id}", letter.payload))
