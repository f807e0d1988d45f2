"""What follows for parent and children when a run closes, and when a child is asked for again."""

from __future__ import annotations

import json

from holdfast.model.events import Event
from holdfast.model.family import Kin, Link, message_id, reported
from holdfast.model.run import Message, Run
from holdfast.model.status import movable_to
from holdfast.model.writes import Create, Depart, Move, Put


def told(link: Link, departs: Depart) -> Put:
    """Return the message to the parent of a run that closes: one for each end of each ask."""
    run, event = departs.run, departs.event
    id = message_id(run, departs.generation, link)
    message = Message(id, "child", link.key, reported(event), event.at)
    return Put(departs.ns, link.parent, message)


def treated(child: Kin, departs: Depart) -> Move | Put | None:
    """Return what is done to an open child of a run that closes."""
    reason, at = f"its parent {departs.run} has closed", departs.event.at
    match child.link.policy:
        case "abandon":
            return None
        case "terminate":
            payload = json.dumps({"type": "Terminated", "message": reason}).encode()
            event = Event("run.terminated", at, payload=payload)
            origins = movable_to("terminated")
            return Move(departs.ns, child.run, origins, "terminated", event, reason)
        case "cancel":
            id = f"closed/{departs.generation}/{departs.run}"
            return cancelling(departs.ns, child.run, id, at, reason)


def cancelling(ns: str, child: str, id: str, at: int, reason: str) -> Put:
    """Return what asks a child to stop."""
    payload = json.dumps({"reason": reason}).encode()
    return Put(ns, child, Message(id, "cancel", "", payload, at), cancels=True)


def is_same(found: Run, link: Link | None, asked: Create) -> bool:
    """Tell whether a run that has the id of a new child is the very child that is meant.

    It is if the same parent asked for it before, with the same input: in an earlier generation, or
    under another key if the caller gave the id.
    """
    return (
        link is not None
        and asked.link is not None
        and link.parent == asked.link.parent
        and found.workflow == asked.workflow
        and found.input_digest in (asked.input_digest, *asked.also)
    )
