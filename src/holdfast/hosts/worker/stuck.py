"""What a worker does about threads that are stuck in steps which have timed out.

It says so: in its log, and in its row. When none is left it takes no more work, and what waits for
a thread goes back to where others take it: here it would wait for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.hosts.worker.introduction import introduced

if TYPE_CHECKING:
    from holdfast.hosts.worker.session import Session
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")


def noticed(worker: Worker) -> None:
    """Act on how many threads are stuck now."""
    calls = worker.steps.calls
    stuck = 0 if calls.is_healthy else calls.written_off
    info = introduced(worker.app, worker.settings.queues, stuck=stuck)
    if info != worker.info:
        worker.info = info
        worker.lease.introduce(info)
        worker.beside(_say(worker))
    if calls.is_stuck:
        worker.hands.tell(_leave_line)
        worker.jobs.leave_line()
    else:
        worker.look_for_more()


def _leave_line(session: Session) -> None:
    """Give a run back when its other steps have ended, if one waits for a thread in vain."""
    waiting = [key for key, step in session.running.items() if step.is_in_line]
    for key in waiting:
        session.running.pop(key).stop()  # it counts as not attempted
    if waiting:
        session.drain()


async def _say(worker: Worker) -> None:
    try:
        await worker.lease.renew()
    except StoreError as error:  # the next renewal says it
        log.debug("the store could not be told of stuck threads: %s", error)
