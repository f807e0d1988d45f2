"""Parents and children: what ties a run to the run that started it.

A child is created in a commit of its parent, with a *link* beside it. When a run closes, its parent
gets a message in the same commit that says how it ended, and each of its own open children is
treated as its link says. A store only looks the links up; what follows from them is said here.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Literal, NamedTuple

from holdfast.model.checks import LONGEST_ID
from holdfast.model.events import Event

ParentClose = Literal["terminate", "abandon", "cancel"]
"""What becomes of an open child when its parent closes."""

POLICIES: tuple[ParentClose, ...] = ("terminate", "abandon", "cancel")

REFUSED = "refused"
"""How a child ends whose id is taken by other work."""

MAX_DEPTH = 32
"""How many runs may stand above a run. The same on every host: a body may notice it."""


_HEAD = re.compile(rb'\{"status":"[a-z_]+","(?:result|failure)":')

KEPT_OF_ID = 200
"""How much of an id is kept that would be too long."""


class Link(NamedTuple):
    """What ties a child to its parent: who it is, and for which of its keys.

    `generation` is that of the parent when it asked.
    """

    parent: str
    key: str
    generation: int
    policy: ParentClose = "terminate"


class Kin(NamedTuple):
    """A child and its link."""

    run: str
    link: Link


class Closed(NamedTuple):
    """How a child ended: its status, and its result or failure as bytes."""

    status: str
    payload: bytes | None


def descent(depth: int, parent: str) -> str:
    """Return the key of a child's first event: how deep it stands, and under whom."""
    return f"{depth} {parent}"


def depth_of(descent: str) -> int:
    """Return how many runs stand above a run whose first event has this key."""
    return int(descent.partition(" ")[0]) if descent and descent[0] != "@" else 0


def parent_in(descent: str) -> str:
    """Return the parent of a run whose first event has this key; nothing, if it has none.

    The key of a run that a schedule started begins with an @ (`model/schedules.py`).
    """
    return "" if descent.startswith("@") else descent.partition(" ")[2]


def child_id(parent: str, key: str, generation: int) -> str:
    """Return the id of a child that was given none: another one in each generation."""
    again = f"@{generation}" if generation > 1 else ""
    id = f"{parent}/{key}{again}"
    if len(id) <= LONGEST_ID:
        return id
    return f"{id[:KEPT_OF_ID]}~{blake2b(id.encode(), digest_size=16).hexdigest()}"


def message_id(child: str, generation: int, link: Link) -> str:
    """Return the id under which a parent hears of this end of a child, once."""
    return f"{link.generation}.{generation}/{link.key}/{child}"


def reported(closing: Event) -> bytes:
    """Return what the parent is told of the event that closed its child.

    The result stands in it byte for byte, so that it can be cut out again.
    """
    status = closing.kind.removeprefix("run.")
    nothing = b"null" if status == "completed" else b"{}"
    return _head(status) + (closing.payload or nothing) + b"}"


def report_of(payload: bytes | None) -> Closed:
    """Return what `reported` was given."""
    told = payload or b"{}"
    status: str = json.loads(told).get("status", "")
    return Closed(status, told[len(_head(status)) : -1])


def cut_report(payload: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the result in what `reported` gave, the result, and the rest."""
    head = _HEAD.match(payload)
    if head is None:
        return payload, b"", b""
    return head[0], payload[head.end() : -1], payload[-1:]


def _head(status: str) -> bytes:
    what = "result" if status == "completed" else "failure"
    return f'{{"status":"{status}","{what}":'.encode()


def start_noted(id: str, workflow: str, policy: ParentClose) -> bytes:
    """Return what `child.started` holds."""
    fields = {"id": id, "workflow": workflow, "on_parent_close": policy}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def started_id(started: Event) -> str:
    """Return the id of the child that `child.started` is about."""
    id: str = json.loads(started.payload or b"{}").get("id", "")
    return id


def started_as(started: Event, id: str) -> bytes:
    """Return what `child.started` holds for a child of another id."""
    fields = {**json.loads(started.payload or b"{}"), "id": id}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def policy_of(started: Event) -> ParentClose:
    """Return what becomes of the child that `child.started` is about when its parent closes."""
    policy: ParentClose = json.loads(started.payload or b"{}").get("on_parent_close", "terminate")
    return policy


def refusal(failure: bytes) -> bytes:
    """Return what `child.closed` holds of a child that could not be created."""
    return _head(REFUSED) + failure + b"}"
