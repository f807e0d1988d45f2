"""A graph that is executed by itself, in a process that kills itself in the middle of a node.

python -m tests.e2e.papers STORE FOLDER
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import holdfast as hf

RUN = "papers"
TOKEN = "hunter22-hunter22"


class Lines:
    """A store of events: a file with a line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def last(self, run_id: str) -> str:
        found = [each.id for each in self.events() if each.run_id == run_id]
        return found[-1] if found else ""

    async def save(self, events: Sequence[hf.ExecutionEvent]) -> None:
        text = "".join(f"{json.dumps(each, default=datetime.isoformat)}\n" for each in events)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def events(self) -> list[hf.ExecutionEvent]:
        if not self.path.exists():
            return []
        lines = map(json.loads, self.path.read_text("utf-8").splitlines())
        return [hf.ExecutionEvent(each[0], datetime.fromisoformat(each[1]), *each[2:])
                for each in lines]  # fmt: skip


def drawn(store: str, folder: Path) -> hf.StateGraph[hf.State]:
    """Return the graph; `judge` kills its process the first time."""
    observer = hf.StoreObserver(Lines(folder / "told"))
    graph = hf.new_graph_with_deps(hf.default_graph_config("papers"), observer, store)

    def called(name: str, state: hf.State) -> hf.State:
        with (folder / "calls").open("a", encoding="utf-8") as calls:
            calls.write(f"{name}\n")
        token = state.get_secret("token")
        return state.merge({name: token is not None and token.reveal() == TOKEN})

    @graph.node
    def read(state: hf.State) -> hf.State:
        return called("read", state)

    @graph.node
    def judge(state: hf.State) -> hf.State:
        after = called("judge", state)
        if (folder / "calls").read_text("utf-8").count("judge") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return after

    @graph.node
    def file(state: hf.State) -> hf.State:
        return called("file", state)

    graph.set_entry_point(read).add_edge(read, judge).add_edge(judge, file)
    return graph.set_exit_point(file)


async def main(store: str, folder: Path) -> None:
    graph = drawn(store, folder)
    state = hf.State({"topic": "tides"}, run_id=RUN).set_secret("token", TOKEN)
    if (folder / "calls").exists():
        done = await graph.resume(RUN, state)
    else:
        done = await graph.execute(state)
    print(json.dumps(dict(done)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
