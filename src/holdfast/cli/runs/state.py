"""The state of a run of a graph, at any of its nodes: `runs show --state`, `runs diff --at`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import choosing, options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, found
from holdfast.cli.runs.diff import LOOKS
from holdfast.cli.runs.show import say_value
from holdfast.cli.statuses import CYAN
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, cut, fields, table
from holdfast.cli.words import iso

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.fronts.graph.rewinding import Visit
    from holdfast.model.diffing import Verdict

FIELDS = ("run", "node", "iteration", "seq", "at", "state")
DIFFERENCES = (Column(""), Column("field"), Column("a", cut=True), Column("b", cut=True))


def show_state(
    door: Door, run: str, app: str | None, at: str | None, chosen: str | None, *, is_whole: bool
) -> None:  # fmt: skip
    """Print the state of a run after a node, or after the one that was done last."""
    names = choosing.fields_of(chosen, FIELDS)
    id, [visit] = _visited(door, run, app, (at,))
    state = _state_of(visit)
    if chosen:
        say_json(choosing.only({"run": id, **_place_of(visit), "state": state}, names))
        return
    if STDOUT.is_person:
        STDOUT.say(STDOUT.dim(f"{clean(id)} {_said(visit)}"))
    for name, value in state.items():
        if is_whole and STDOUT.is_person:
            STDOUT.say(f"  {STDOUT.dim(clean(name))}")
            say_value(value)
        else:
            _say(name, value)


def show_difference(
    door: Door, run: str, app: str | None, places: tuple[str, str | None], *,
    everything: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print which fields of a run's state differ between two places."""
    id, (a, b) = _visited(door, run, app, places)
    old, new = _state_of(a), _state_of(b)
    verdicts: dict[str, Verdict] = {name: _verdict(name, old, new) for name in {**old, **new}}
    shown = [name for name, verdict in verdicts.items() if everything or verdict != "same"]
    if as_json:
        items = [
            {"field": name, "verdict": verdicts[name], "a": old.get(name), "b": new.get(name)}
            for name in verdicts
        ]
        sides = {"a": _place_of(a), "b": _place_of(b)}
        say_json({"run": id, **sides, "same": old == new, "items": items})
    elif STDOUT.is_person:
        STDOUT.say(f"a  {STDOUT.style(clean(id), **CYAN)} {_said(a)}")
        STDOUT.say(f"b  {STDOUT.style(clean(id), **CYAN)} {_said(b)}")
        if old == new:
            STDOUT.say("They are the same.")
        for line in table(DIFFERENCES, [_cells(name, verdicts[name], old, new) for name in shown]):
            STDOUT.say(line)
    else:
        for name in shown:
            STDOUT.say(fields(verdicts[name], name, _told(name, old), _told(name, new)))


def _verdict(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Verdict:
    if name in old and name in new:
        return "same" if old[name] == new[name] else "differs"
    return "only in a" if name in old else "only in b"


def _cells(
    name: str, verdict: Verdict, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[Cell]:
    icon, style = LOOKS[verdict]
    told = (Cell(clean(_told(name, state))) for state in (old, new))
    return [Cell(icon, style), Cell(clean(name), style), *told]


def _told(name: str, state: Mapping[str, Any]) -> str:
    return json.dumps(state[name], ensure_ascii=False) if name in state else ""


def _state_of(visit: Visit) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(visit.graph.shape.told(visit.state))
    return state


def _place_of(visit: Visit) -> dict[str, Any]:
    return {
        "node": visit.node, "iteration": visit.iteration, "seq": visit.seq, "at": iso(visit.at),
    }  # fmt: skip


def _said(visit: Visit) -> str:
    after = f"after {visit.key}" if visit.node else "as it began"
    return clean(f"{after}, event {visit.seq}")


def _visited(
    door: Door, run: str, app: str | None, places: Sequence[str | None]
) -> tuple[str, list[Visit]]:
    """Return the run's id, and the visits that are meant. Raises `UnknownKey`."""
    if app is None:
        raise Refused(f"A state needs the code of its graph. {options.AppName.HOW}")
    from holdfast.checkpoints import visits_of
    from holdfast.cli.loading import load_app
    from holdfast.client import Client
    from holdfast.fronts.graph.rewinding import visit_at

    loaded = load_app(app)

    async def read(engine: LocalEngine) -> tuple[str, list[Visit]]:
        id = await found(engine, run)
        visits = await visits_of(Client(loaded, engine), id)
        return id, [visit_at(visits, at, id) for at in places]

    return door.enter(read)


def _say(name: str, value: Any) -> None:
    told = json.dumps(value, ensure_ascii=False)
    if STDOUT.is_person:
        STDOUT.say(f"  {STDOUT.dim(f'{clean(name):<12}')}  {cut(clean(told), STDOUT.width - 16)}")
    else:
        STDOUT.say(fields(name, told))
