"""Everything a store holds, at one moment: what the invariants are checked on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.model.annotations import LogLine, Progress
from holdfast.model.cache import CachedResult
from holdfast.model.definitions import Definition
from holdfast.model.events import Event
from holdfast.model.family import Link
from holdfast.model.jobs import Job
from holdfast.model.labels import Labels
from holdfast.model.limits import Queue, Ticket
from holdfast.model.run import Message, Run
from holdfast.model.schedules import Scheduled
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait

RunKey = tuple[str, str]
"""Namespace and id of a run."""


class Started(NamedTuple):
    """A start whose caller was told that it is stored."""

    ns: str
    run: str
    workflow: str
    input_digest: bytes


class Sent(NamedTuple):
    """A signal, a cancel or an update whose caller was told that it is stored."""

    ns: str
    run: str
    message: str


class Journal(NamedTuple):
    """What callers were told, kept outside the store. The store must hold all of it."""

    starts: tuple[Started, ...] = ()
    signals: tuple[Sent, ...] = ()
    cancels: tuple[Sent, ...] = ()
    updates: tuple[Sent, ...] = ()


class Dump(NamedTuple):
    """All rows of a store: events with the superseded ones, messages, leases, what was said."""

    now: int
    runs: tuple[Run, ...] = ()
    events: Mapping[RunKey, tuple[Event, ...]] = {}
    inbox: Mapping[RunKey, tuple[Message, ...]] = {}
    workers: Mapping[str, int] = {}
    """When the lease of each worker ends."""
    journal: Journal = Journal()
    labels: Mapping[RunKey, Labels] = {}
    """Tags and attributes of those runs that have some."""
    progress: Mapping[RunKey, tuple[Progress, ...]] = {}
    logs: Mapping[RunKey, tuple[LogLine, ...]] = {}
    definitions: tuple[Definition, ...] = ()
    children: Mapping[RunKey, Link] = {}
    """What ties each child to its parent."""
    waits: tuple[Wait, ...] = ()
    """What runs wait for from outside, and what became of it."""
    queues: tuple[Queue, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    """Places of runs at managed queues."""
    jobs: tuple[Job, ...] = ()
    """Steps that other workers are to do, or are doing."""
    schedules: tuple[Scheduled, ...] = ()
    secrets: Mapping[RunKey, tuple[Sealed, ...]] = {}
    """What the steps of open runs need, encrypted."""
    unread: tuple[tuple[RunKey, str], ...] = ()
    """What could not be read of which run, and why: encrypted payloads, and blobs."""
    cache: tuple[CachedResult, ...] = ()
    """Results that later calls of steps may use."""
