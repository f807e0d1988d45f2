"""Errors as a person sees them: the message, which says what to do next, and no traceback."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from holdfast.cli.terminal import STDERR, clean
from holdfast.errors import (
    HoldfastError,
    MoveRefused,
    RunFailed,
    RunNotFound,
    StoreError,
    UnknownQueue,
    UnknownWorkflow,
    UpdateFailed,
    UpdateRejected,
)


class Refused(click.ClickException):
    """What was asked cannot be done; the message says what can."""

    exit_code = 2

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr, and where to read more."""
        told = "\n".join(clean(line) for line in self.message.split("\n"))
        STDERR.say(f"{STDERR.style('error:', fg='red', bold=True)} {told}")
        if self.code:
            STDERR.say(STDERR.dim(f"more: holdfast explain {self.code}"))


class Failed(Refused):
    """The run did not complete, or cannot without help."""

    exit_code = 1


class NotFound(Refused):
    """There is no such run or workflow."""

    exit_code = 3


class Forbidden(Refused):
    """The store is there, and this user may not use it."""

    exit_code = 4


class Unreachable(Refused):
    """The store cannot be read or written."""

    exit_code = 5


TELLING: tuple[tuple[type[HoldfastError], type[Refused]], ...] = (
    (RunFailed, Failed),
    (UpdateFailed, Failed),
    (UpdateRejected, Failed),
    (RunNotFound, NotFound),
    (UnknownWorkflow, NotFound),
    (UnknownQueue, NotFound),
    (MoveRefused, Refused),
    (StoreError, Unreachable),
    (HoldfastError, Refused),
)


def must_be_asked(what: str) -> None:
    """Refuse what a person is to agree to first, where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise Refused(f"This would {what}. Look with --dry-run; repeat it with --yes.")


def refused(error: HoldfastError) -> Refused:
    """Return one of our errors as the command line tells it, with its exit code."""
    tellers = (teller for kind, teller in TELLING if isinstance(error, kind))
    return next(tellers, Refused)(str(error), code=error.code)
