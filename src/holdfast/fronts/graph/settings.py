"""How a graph is run, as data. To change one: `dataclasses.replace(config, ...)`."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.errors import BadDefinition

MAX_ITERATIONS = 1_000
"""How many nodes a run may visit, unless its graph says so."""
MEMORY = "memory"


def is_place(store: str) -> bool:
    """Tell whether a text says where runs are kept, and is not the name of something else."""
    return store == MEMORY or "://" in store


NOBODY = "noop"


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """Which nodes of a graph leave checkpoints, and where the runs of `graph.execute` are kept.

    `store` is "memory", a URL as for `app.open`, or the name of a store of checkpoints that the app
    knows, `app.register_checkpoint_store`: that gets each of them after its commit, and the runs
    are in memory.

    Every node is recorded, none that was recorded runs again, and a run can be resumed, rerun and
    forked at each, during the run and after it. Each `interval`-th node leaves a checkpoint, which
    is a mark in the history; 0 means none. `preserve` says that those of a run that has completed
    are still wanted.
    """

    interval: int = 0
    preserve: bool = False
    store: str = MEMORY

    def __post_init__(self) -> None:
        if type(self.interval) is not int or self.interval < 0:
            raise BadDefinition(
                what=f"CheckpointConfig: interval={self.interval!r:.60} is no number of nodes",
                hint="Give an int, 0 or more.",
            )
        if type(self.preserve) is not bool:
            raise BadDefinition(
                what=f"CheckpointConfig: preserve={self.preserve!r:.60} is no bool",
                hint="Give True or False.",
            )
        store: object = self.store
        if not isinstance(store, str) or not store:
            raise BadDefinition(
                what=f"CheckpointConfig: store={self.store!r:.60} is no store",
                hint='Give "memory", or a URL such as "sqlite:///papers.db".',
            )

    def is_due(self, iteration: int) -> bool:
        """Tell whether the node that was visited as the n-th leaves a checkpoint."""
        return self.interval > 0 and iteration % self.interval == 0


@dataclass(frozen=True, slots=True)
class GraphConfig:
    """A graph's name, and how its runs are treated.

    A run that visits more than `max_iterations` nodes fails. `observer` names who is told of what
    happens: "noop" is nobody, "slog" is a logger of the standard library, which gets no states. In
    a `strict` graph a field of the state that sounds like a secret is an error; else it is a
    warning.
    """

    name: str
    observer: str = "slog"
    max_iterations: int = MAX_ITERATIONS
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    strict: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.observer, str):
            raise BadDefinition(
                what=f"GraphConfig: observer={self.observer!r:.60} is no name",
                hint="Give an observer itself to hf.new_graph_with_deps(config, observer).",
            )
        if not isinstance(self.checkpoint, CheckpointConfig):
            raise BadDefinition(
                what=f"GraphConfig: checkpoint={self.checkpoint!r:.60} is no CheckpointConfig",
                hint="Write checkpoint=hf.CheckpointConfig(interval=1).",
            )
        if type(self.strict) is not bool:
            raise BadDefinition(
                what=f"GraphConfig: strict={self.strict!r:.60} is no bool",
                hint="Give True or False.",
            )


def default_graph_config(name: str) -> GraphConfig:
    """Return how a graph is run if nothing else is said."""
    return GraphConfig(name)


def checked_config(config: GraphConfig) -> GraphConfig:
    """Return it if it is one. Raises `BadDefinition`."""
    given: object = config
    if isinstance(given, GraphConfig):
        return given
    raise BadDefinition(
        what=f"A graph was given {given!r:.60} as its config",
        hint='Write hf.StateGraph(hf.default_graph_config("classify")), or app.graph("classify").',
    )
