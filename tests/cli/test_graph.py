"""`holdfast graph`: a graph of an app, as text, SVG, Mermaid or JSON, with the way of a run."""

import asyncio
import json
import re
from functools import partial
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli.loading import load_app
from tests.cli.conftest import SAMPLE, Type
from tests.engine.places import until

RESEARCH = str(Path(__file__).resolve().parents[2] / "examples" / "research.py")


@pytest.fixture
def asked(tmp_path: Path) -> str:
    """Return a store with a run that waits for its editor, and one of another workflow."""
    url = f"sqlite:///{tmp_path / 'research.db'}"
    app = load_app(RESEARCH)

    @app.workflow
    async def other() -> None:
        return None

    async def story() -> None:
        async with app.open(url) as client:
            await (await client.start(other.bind(), id="other")).result()
            paper = app.graphs[0].blueprint.shape.cls
            await client.start(app.graphs[0].bind(paper("why are there tides?")), id="tides")
            await until(partial(_is_asked, client))

    asyncio.run(story())
    return url


async def _is_asked(client: hf.Client) -> bool:
    return bool((await client.questions()).questions)


def test_a_graph_is_drawn_as_text(typed: Type) -> None:
    result = typed("graph", "research", "--app", RESEARCH)
    assert result.exit_code == 0
    assert result.stdout.startswith("○ start\n│\n▼\n■ plan ◀───")


def test_the_way_of_a_run_is_drawn(typed: Type, asked: str) -> None:
    command = ("graph", "research", "--app", RESEARCH, "--store", asked, "--run", "tides")
    told = typed(*command).stdout
    assert "● review  here" in told
    assert "✓ plan  done \N{MULTIPLICATION SIGN}3" in told
    assert 'class="box at"' in typed(*command, "--svg").stdout
    assert "class n3 at" in typed(*command, "--mermaid").stdout
    document = json.loads(typed(*command, "--json").stdout)
    assert document["problems"] == []
    marks = {box["id"]: box["mark"] for box in document["boxes"]}
    assert marks == {"START": "done", "plan": "done", "read": "done", "write": "done",
                     "review": "at", "END": "unseen"}  # fmt: skip


def test_a_picture_is_written_to_a_file(typed: Type, tmp_path: Path) -> None:
    file = tmp_path / "research.svg"
    command = ("graph", "research", "--app", RESEARCH, "--svg", "--theme", "dark")
    result = typed(*command, "--out", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_text("utf-8") == typed(*command).stdout
    assert "prefers-color-scheme" not in file.read_text("utf-8")


def test_a_graph_or_a_run_that_is_not_there_is_refused(typed: Type, asked: str) -> None:
    result = typed("graph", "resear", "--app", RESEARCH)
    assert result.exit_code == 2
    assert "Did you mean 'research'? There are: research." in result.stderr
    assert "There are: none." in typed("graph", "greet", "--app", SAMPLE).stderr
    command = ("graph", "research", "--app", RESEARCH, "--store", asked, "--run")
    assert typed(*command, "nobody").exit_code == 3
    assert "is of 'other', not of 'research'" in typed(*command, "other").stderr


FACTORY = """
import holdfast as hf

app = hf.App("papers")


async def nothing(state):
    return None


def papers(graph, runtime, params):
    names = params["names"]
    for name in names:
        graph.add_node(name, nothing)
    for one, other in zip([hf.START, *names], [*names, hf.END]):
        graph.add_edge(one, other)
    return hf.State()


app.factories.register("papers", papers)
"""


@pytest.fixture
def factory(tmp_path: Path) -> str:
    """Return the file of an app with a factory, of which a run with two nodes has ended."""
    file = tmp_path / "papers.py"
    file.write_text(FACTORY, "utf-8")
    app = load_app(str(file))

    async def story() -> None:
        async with app.open(f"sqlite:///{tmp_path / 'sample.db'}") as client:
            bound = app.factories.get("papers").bind({"names": ["read", "judge"]})
            await (await client.start(bound, id="two")).result()

    asyncio.run(story())
    return str(file)


def test_the_graph_of_a_factory_is_drawn_for_a_run_or_for_parameters(
    typed: Type, factory: str
) -> None:
    command = ("graph", "papers", "--app", factory)
    told = typed(*command, "--run", "two").stdout
    assert ("read  done" in told, "judge  done" in told) == (True, True)
    assert "judge" in typed(*command, "--run", "two", "--svg").stdout
    asked = typed(*command, "--params", '{"names": ["file"]}', "--json").stdout
    assert [box["id"] for box in json.loads(asked)["boxes"]] == ["START", "file", "END"]


def test_parameters_for_which_a_factory_draws_nothing_are_refused(
    typed: Type, factory: str
) -> None:
    command = ("graph", "papers", "--app", factory)
    result = typed(*command)
    assert (result.exit_code, "KeyError: 'names'" in result.stderr) == (2, True)
    assert "is no JSON object" in typed(*command, "--params", "[1]").stderr
    assert "is no JSON object" in typed(*command, "--params", "{").stderr
    result = typed("graph", "paper", "--app", factory)
    assert "Did you mean 'papers'?" in result.stderr


def test_the_state_of_a_run_is_shown_at_any_node(typed: Type, asked: str) -> None:
    command = ("runs", "show", "tides", "--app", RESEARCH, "--store", asked, "--state")
    last = json.loads(typed(*command, "--json").stdout)
    assert (last["run"], last["node"]) == ("tides", "write")
    assert last["state"]["question"] == "why are there tides?"
    first = json.loads(typed(*command, "--at", "plan:1", "--json").stdout)
    assert (first["node"], first["iteration"]) == ("plan", 1)
    assert first["state"] != last["state"]
    by_seq = typed(*command, "--at", str(first["seq"]), "--json").stdout
    assert json.loads(by_seq) == first
    told = dict(
        line.split("\t", 1) for line in typed(*command, "--at", "plan:1").stdout.splitlines()
    )
    assert {name: json.loads(value) for name, value in told.items()} == first["state"]
    chosen = typed(*command, "--json=node,seq").stdout
    assert json.loads(chosen) == {"node": "write", "seq": last["seq"]}


def test_details_of_a_state_are_whole(typed: Type, asked: str) -> None:
    command = ("runs", "show", "tides", "--app", RESEARCH, "--store", asked, "--state", "--detail")
    told = typed(*command, person=True).stdout
    assert '\n  question\n    "why are there tides?"\n' in told


def test_a_run_is_shown_on_its_graph(typed: Type, asked: str) -> None:
    drawing = ("graph", "research", "--app", RESEARCH, "--store", asked, "--run", "tides")
    command = ("runs", "show", "tides", "--app", RESEARCH, "--store", asked, "--graph")
    assert typed(*command).stdout == typed(*drawing).stdout
    assert typed(*command, "--json").stdout == typed(*drawing, "--json").stdout
    assert "export HOLDFAST_APP" in typed(*command[:3], "--store", asked, "--graph").stderr
    of_none = typed("runs", "show", "other", *command[3:])
    assert (of_none.exit_code, "There are: research." in of_none.stderr) == (2, True)


def test_a_fork_with_another_state_is_told_and_compared(typed: Type, asked: str) -> None:
    app = load_app(RESEARCH)

    async def story() -> None:
        async with app.open(asked, worker=False) as client:
            points = hf.Checkpoints(client, "tides")
            await points.fork("read:2", {"remark": "shorter"}, id="other-tides", reason="what if")

    asyncio.run(story())
    told = typed("runs", "show", "other-tides", "--store", asked, person=True).stdout
    forked = r"from tides at \d+, with another state after read:2 · what if"
    assert re.search(rf"forked +{forked}$", told, re.MULTILINE)
    command = ("runs", "show", "other-tides", "--app", RESEARCH, "--store", asked, "--state")
    assert json.loads(typed(*command, "--json").stdout)["state"]["remark"] == "shorter"
    compared = typed("runs", "diff", "tides", "other-tides", "--store", asked, person=True).stdout
    assert "They part at state after read:2: only in b." in compared


def test_a_state_that_cannot_be_shown_is_refused(typed: Type, asked: str) -> None:
    command = ("runs", "show", "--store", asked, "--state")
    assert "export HOLDFAST_APP" in typed(*command, "tides").stderr
    result = typed(*command, "tides", "--app", RESEARCH, "--at", "plan:9")
    assert (result.exit_code, "plan:1" in result.stderr) == (2, True)


def test_two_states_of_a_run_are_compared(typed: Type, asked: str) -> None:
    show = ("runs", "show", "tides", "--app", RESEARCH, "--store", asked, "--json=state", "--at")
    old, new = (json.loads(typed(*show, at).stdout)["state"] for at in ("plan:1", "read:2"))
    command = ("runs", "diff", "tides", "--app", RESEARCH, "--store", asked, "--at", "plan:1")
    compared = json.loads(typed(*command, "--vs", "read:2", "--json").stdout)
    assert (compared["run"], compared["same"]) == ("tides", False)
    assert (compared["a"]["node"], compared["b"]["node"]) == ("plan", "read")
    assert {item["field"]: item["a"] for item in compared["items"]} == old
    assert {item["field"]: item["b"] for item in compared["items"]} == new
    changed = [name for name in old if old[name] != new[name]]
    rows = [line.split("\t") for line in typed(*command, "--vs", "read:2").stdout.splitlines()]
    assert [(verdict, name) for verdict, name, *_ in rows] == [("differs", n) for n in changed]
    assert [json.loads(b) for *_, b in rows] == [new[name] for name in changed]
    told = typed(*command, "--vs", "read:2", person=True).stdout
    assert re.match(r"a  tides after plan:1, event \d+\nb  tides after read:2, event \d+\n", told)
    assert f"≠  {changed[0]}" in told
    assert "They are the same." in typed(*command, "--vs", "plan:1", person=True).stdout


def test_a_state_is_compared_with_the_last_unless_another_is_named(typed: Type, asked: str) -> None:
    command = ("runs", "diff", "tides", "--app", RESEARCH, "--store", asked, "--at", "plan:1")
    compared = json.loads(typed(*command, "--json").stdout)
    assert compared["b"]["node"] == "write"
    everything = typed(*command, "--all").stdout.splitlines()
    assert len(everything) == len(compared["items"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("tides",), "Compare RUN with OTHER"),
        (("tides", "--vs", "plan:1"), "--at PLACE with --vs PLACE"),
        (("tides", "other", "--at", "plan:1"), "--at PLACE with --vs PLACE"),
        (("tides", "--at", "plan:1"), "export HOLDFAST_APP"),
        (("tides", "--at", "plan:1", "--vs", "plan:9", "--app", RESEARCH), "plan:9"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    typed: Type, asked: str, words: tuple[str, ...], told: str
) -> None:
    result = typed("runs", "diff", *words, "--store", asked)
    assert (result.exit_code, told in result.stderr) == (2, True)
