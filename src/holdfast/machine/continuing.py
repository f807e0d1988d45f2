"""Continue-as-new: a body ends and begins again with other input, in the same run.

What came before is replayed no more, so a run may go on for years and still restart at once. The
new body is in the run's next generation: its keys begin again, its steps have idempotency keys of
their own, and what it draws by lot differs. Messages that nobody has taken go over to it.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from holdfast.errors import BadDefinition, InvalidValue
from holdfast.machine.ending import Continued
from holdfast.machine.machine import Machine
from holdfast.machine.primitives import here

SUGGESTED = 4_096
"""Events after which a body should continue. The same for ever, on every host: bodies ask."""


def history_length() -> int:
    """Return how many events a replay of this body takes: those since its start or continuation."""
    machine = here("hf.history_length()")
    return machine.seq - machine.base + 1


def should_continue(events: int = SUGGESTED) -> bool:
    """Tell whether the history has become so long that the body should continue as new."""
    if type(events) is not int or events < 2:
        raise InvalidValue(
            where="hf.should_continue",
            path="events",
            problem=f"{events!r:.60} is no length of a history",
            hint="Give an int from 2 on.",
        )
    return history_length() >= events


def continue_with(machine: Machine, input: bytes) -> NoReturn:
    """End the running body; it begins again with `input`. Raises `BadDefinition`."""
    if asyncio.current_task() is not machine.loop.main:
        what = "hf.continue_as_new() was called in a task of the body"
        hint = "Call it in the workflow's own function: it ends the body, not one of its tasks."
    elif machine.sagas is not None and any(block.entries for block in machine.sagas.open):
        what = "hf.continue_as_new() was called in a saga that has something to undo"
        hint = "Leave the block first: the next generation could not undo it."
    elif machine.seq == machine.base:
        what = "hf.continue_as_new() was called before the body waited for anything"
        hint = "Let it wait for a step, a timer or a signal first, or it would go on so for ever."
    else:
        raise Continued(input)
    raise BadDefinition(what=what, hint=hint)
