"""`holdfast runs show --state`: the state of a run of a graph, at any of its nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.cli import choosing, options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, found
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDOUT, clean, cut, fields
from holdfast.cli.words import iso

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.fronts.graph.rewinding import Visit

FIELDS = ("run", "node", "iteration", "seq", "at", "state")


def show_state(door: Door, run: str, app: str | None, at: str | None, chosen: str | None) -> None:
    """Print the state of a run after a node, or after the one that was done last."""
    names = choosing.fields_of(chosen, FIELDS)
    if app is None:
        raise Refused(f"A state needs the code of its graph. {options.AppName.HOW}")
    id, visit = _visited(door, run, app, at)
    state = json.loads(visit.graph.shape.told(visit.state))
    if chosen:
        told = {
            "run": id, "node": visit.node, "iteration": visit.iteration, "seq": visit.seq,
            "at": iso(visit.at), "state": state,
        }  # fmt: skip
        say_json(choosing.only(told, names))
        return
    if STDOUT.is_person:
        after = f"after {visit.key}" if visit.node else "as it began"
        STDOUT.say(STDOUT.dim(clean(f"{id} {after}, event {visit.seq}")))
    for name, value in state.items():
        _say(name, value)


def _visited(door: Door, run: str, app: str, at: str | None) -> tuple[str, Visit]:
    from holdfast.checkpoints import visits_of
    from holdfast.cli.loading import load_app
    from holdfast.client import Client
    from holdfast.fronts.graph.rewinding import visit_at

    loaded = load_app(app)

    async def read(engine: LocalEngine) -> tuple[str, Visit]:
        id = await found(engine, run)
        return id, visit_at(await visits_of(Client(loaded, engine), id), at, id)

    return door.enter(read)


def _say(name: str, value: Any) -> None:
    told = json.dumps(value, ensure_ascii=False)
    if STDOUT.is_person:
        STDOUT.say(f"  {STDOUT.dim(f'{clean(name):<12}')}  {cut(clean(told), STDOUT.width - 16)}")
    else:
        STDOUT.say(fields(name, told))
