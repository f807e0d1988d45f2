"""The root of the command tree, and what becomes of errors.

Exit codes: 0 ok, 1 the run failed (or doctor or check found something), 2 usage, 3 not found,
4 not allowed, 5 the store cannot be reached, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from holdfast import __version__
from holdfast.cli.lazy import LazyGroup
from holdfast.errors import HoldfastError

INTERRUPTED = 130


class Root(LazyGroup):
    """The whole tree: turns our errors into messages with an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            from holdfast.cli.telling import refused

            raise refused(error) from error


@click.group(
    cls=Root,
    lazy={
        "run": ("holdfast.cli.run", "Start a run of a workflow."),
        "runs": ("holdfast.cli.runs", "List, show, watch and steer runs."),
        "worker": ("holdfast.cli.worker", "Run an app's workflows until told to stop."),
        "questions": ("holdfast.cli.questions", "List the questions that wait for an answer."),
        "approve": ("holdfast.cli.questions:approve", "Answer an open question of a run."),
        "steps": ("holdfast.cli.steps", "Complete a step from outside, or let it fail."),
        "queues": ("holdfast.cli.queues", "List queues with limits, pause and change them."),
        "schedules": ("holdfast.cli.schedules", "List, show and steer schedules."),
        "workers": ("holdfast.cli.workers", "List the workers of a store."),
        "graph": ("holdfast.cli.graph", "Draw a graph, with the way of a run on it."),
        "check": ("holdfast.cli.check", "Look through an app for what could not be replayed."),
        "doctor": ("holdfast.cli.doctor", "Check the store and everything in it."),
        "explain": ("holdfast.cli.explain", "Print the page of an error code."),
        "move": ("holdfast.cli.move", "Move everything into another store."),
        "db": ("holdfast.cli.db", "Migrate, inspect and back up the database."),
        "completion": ("holdfast.cli.completion", "Print what your shell completes commands by."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="holdfast")
def root() -> None:
    """Durable workflows: a crash, a deploy or a year of waiting changes nothing.

    The store is --store or HOLDFAST_STORE (default: sqlite:///holdfast.db), the app is --app or
    HOLDFAST_APP (module:app, or path/file.py).
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    try:
        code = root.main(args, prog_name="holdfast", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`, a pager) has gone; let the interpreter's last flush go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
