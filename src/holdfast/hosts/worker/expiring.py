"""Runs that stood in line for longer than they may: they end without having begun."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from holdfast.errors import HoldfastError, StoreError
from holdfast.kernel import dispatch
from holdfast.model.commands import ExpireRun
from holdfast.model.limits import Ticket
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")


async def expire(store: Store, tickets: Iterable[Ticket]) -> None:
    """End the runs of these tickets, but for those that somebody took meanwhile, or ended."""
    for ticket in tickets:
        command = ExpireRun(ticket.ns, ticket.run, store.now(), ticket.queue)
        (outcome,) = await store.write([dispatch.decide(command)])
        try:
            dispatch.read(command, outcome)
        except StoreError:
            raise
        except HoldfastError:
            continue
        log.warning("run %s ended: it did not begin in time on queue %s", ticket.run, ticket.queue)
