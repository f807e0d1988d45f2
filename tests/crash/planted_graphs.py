"""Bugs planted in what graphs do over a crash."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from holdfast import factories, graph_running
from holdfast.hosts.worker import Worker
from holdfast.hosts.worker.needing import Needing
from holdfast.model.asks import StepAsk
from holdfast.testing.crash_world import Plant
from tests.crash.planted import unchecked

IS_READY = Needing.is_ready


def hasty(needing: Needing, ask: StepAsk, number: int) -> bool:
    """Begins a node without its secrets, if another process held the run before."""
    return needing._session.run.epoch > 1 or IS_READY(needing, ask, number)


@contextmanager
def without_secrets() -> Iterator[Plant]:
    with patch.object(Needing, "is_ready", hasty), patch.object(Worker, "check_replay", unchecked):
        yield Plant()


@contextmanager
def from_the_start() -> Iterator[Plant]:
    """Resumes a run that was stopped from its first event on."""
    with patch.object(graph_running, "_before_the_stop", lambda _: None):
        yield Plant()


@contextmanager
def asking_again() -> Iterator[Plant]:
    """Takes the state that a factory gives now for the one with which the run began."""
    swapped = patch.object(factories, "_record_in", lambda _: None)
    with swapped, patch.object(Worker, "check_replay", unchecked):
        yield Plant()
