"""Which code a run was started on, which one it is blocked on, and which one was seen last."""

from __future__ import annotations

from holdfast.cli.terminal import clean
from holdfast.model.definitions import Definition, shown
from holdfast.model.events import since_start
from holdfast.model.run import Loaded, Run


def versions_of(definitions: tuple[Definition, ...]) -> str:
    """Name the versions that were ever seen, as a person says them."""
    seen = dict.fromkeys(clean(each.version) or "none" for each in reversed(definitions))
    return ", ".join(seen)


def code_of(loaded: Loaded, definitions: tuple[Definition, ...]) -> str:
    """Say what the run was started on, and what the newest code for it is, if that is known."""
    start = since_start(loaded.events)[0] if loaded.events else None
    started = start.digest if start is not None else None
    if start is None or not started:
        return ""
    verb = "continued" if start.kind == "run.continued" else "started"
    told = f"{verb} on shape {shown(started)}"
    newest = newest_for(loaded.run, definitions)
    if newest is None or newest.shape == started:
        return told
    return f"{told}; the newest code is {shown(newest.shape)}"


def newest_for(run: Run, definitions: tuple[Definition, ...]) -> Definition | None:
    """Return the definition seen last that can run this run."""
    exact = [each for each in definitions if each.version == run.version]
    open_to = [each for each in definitions if not run.version or not each.version]
    return next(reversed(exact or open_to), None)
