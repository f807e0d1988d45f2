"""`holdfast runs`: list, show, watch and steer runs."""

from __future__ import annotations

import click

from holdfast.cli.lazy import LazyGroup

VERBS = "holdfast.cli.runs.verbs"
TALK = "holdfast.cli.runs.talk"


@click.group(
    cls=LazyGroup,
    lazy={
        "list": ("holdfast.cli.runs.list", "List runs, newest first."),
        "show": ("holdfast.cli.runs.show", "Show a run and every event of it."),
        "watch": ("holdfast.cli.runs.watch", "Follow a run until it ends."),
        "logs": ("holdfast.cli.runs.logs", "Print what a run's steps and body have logged."),
        "why": ("holdfast.cli.runs.why", "Say why a run is where it is, and what to type next."),
        "result": ("holdfast.cli.runs.result", "Print what a run returned."),
        "export": ("holdfast.cli.runs.files:export_run", "Print everything of a run as JSON."),
        "import": ("holdfast.cli.runs.files:import_run", "Take over a run from a file, paused."),
        "signal": (f"{VERBS}:signal", "Send a signal to a run."),
        "query": (f"{TALK}:query", "Ask a run something, and print the answer."),
        "update": (f"{TALK}:update", "Have a run do something, and print the result."),
        "secret": ("holdfast.cli.runs.secret", "Give a run a secret that its steps wait for."),
        "cancel": (f"{VERBS}:cancel", "Ask a run to stop; its body may clean up."),
        "terminate": (f"{VERBS}:terminate", "End a run now; nothing of it runs any more."),
        "retry": (f"{VERBS}:retry", "Let a failed, blocked or quarantined run try again."),
        "rerun": ("holdfast.cli.runs.travel:rerun", "Take a run back to one of its steps."),
        "fork": ("holdfast.cli.runs.travel:fork", "Start a run from a point of another's history."),
        "diff": ("holdfast.cli.runs.diff", "Compare two runs, key by key."),
        "pause": (f"{VERBS}:pause", "Have a run start no more steps."),
        "resume": (f"{VERBS}:resume", "Let a paused run go on."),
    },
)
def command() -> None:
    """List, show, watch and steer runs.

    RUN is an id, the unique beginning of one, @last or @failed.
    """
