"""The report: what the terminal shows at the end and what `RESULTS.md` keeps.

Each database has a part of that page, which a run on the other leaves as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import FAMILIES, Contender, pins
from benchmarks.figures import Figures
from benchmarks.syncs import Count
from benchmarks.tables import NONE, number, table
from benchmarks.targets import GOALS, Verdict
from benchmarks.work import FIGURES, FULL, QUICK, WORKS, Size

MARKS = {True: "✓", False: "✗", None: ""}
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"
AGAIN = """\
```sh
make bench                                       # everything: three rounds, about twenty minutes
make bench STORE=postgres                        # only there; the other part of this page stays
python -m benchmarks --quick                     # the same shape, small, one round
python -m benchmarks --store sqlite --only holdfast,raw --work w1,w2
python -m benchmarks --rounds 5 --json rows.json # keep every single measurement
```

Peers are installed on first use, each in a virtual environment of its own under `$BENCH_VENVS`
(by default `~/.cache/holdfast-bench`), from the pins in `benchmarks/peers/`. A partial run
(`--only`, `--work`, `--quick`) leaves this file alone unless `--results DIR` is given. PostgreSQL
comes as a wheel and is started for the run; `HOLDFAST_TEST_POSTGRES=URL` names another server."""
RAW = {
    "sqlite": "The raw limit is one SQLite transaction of two rows (an UPDATE of the run, an "
    "INSERT of the event), synced, with nothing else around it; for the rate, groups of 100. That "
    "is the commit by which the targets were set. A step of ours, which only goes on, writes the "
    "event alone: what that takes as a raw commit, by one statement, is a figure of its own. "
    "The cost of a step in raw commits is measured with the two taking turns of a tenth of a "
    "second: a shared disk changes its pace faster than a round goes by.",
    "postgres": "The raw limit is one statement of the same rows (an UPDATE of the run, an INSERT "
    "of the event) by a bare loop of the driver that our store uses; for the rate, one statement "
    "for 100 runs. The cost of a step in raw commits is measured with the two taking turns of a "
    "tenth of a second. Client and server share the machine's cores.",
}
SYNCS = {
    "sqlite": "Counted by `strace` (`fdatasync` and `fsync`) over chains of ten steps, beside the "
    "commits our SQLite writer counted itself. Starting a run is a commit too: eleven for ten "
    "steps is 1.1. Checkpoints of the WAL add a few syncs to anybody's.",
    "postgres": "The server's own count of the syncs of its log, over chains of ten steps, beside "
    "the round trips our store made. Starting a run is a commit too: eleven for ten steps is 1.1.",
}
COUNTED = {"sqlite": "commits", "postgres": "round trips"}


@dataclass(frozen=True, slots=True)
class Run:
    """Everything one run of the benchmark found out on one kind of database."""

    family: str
    figures: Figures
    verdicts: Sequence[Verdict]
    syncs: Sequence[Count]
    contenders: Sequence[Contender]
    works: Sequence[str]
    rounds: int
    quick: bool
    date: str
    commit: str
    machine: Mapping[str, str]
    failures: Sequence[str]

    @property
    def size(self) -> Size:
        return QUICK if self.quick else FULL


def picture(family: str) -> str:
    """Name the file of a family's picture."""
    return "results.svg" if family == "sqlite" else f"results-{family}.svg"


def terminal(run: Run) -> str:
    """Return the end of the run as text."""
    parts = [
        ("Settings, read back from each engine", settings_table(run)),
        ("Figures (medians)", figures_table(run)),
        ("Targets", targets_table(run)),
        ("Disk syncs a step", syncs_table(run)),
        ("The machine while it ran", calibration(run)),
    ]
    if run.failures:
        parts.append(("Not measured", "\n".join(f"- {failure}" for failure in run.failures)))
    titled = (f"{FAMILIES[run.family]}: {title}\n\n{body}" for title, body in parts)
    return "\n\n".join(titled)


def markdown(runs: Sequence[Run], old: str) -> str:
    """Return `RESULTS.md`: a part for each family, of these runs or as the old page has it."""
    parts = {run.family: part(run) for run in runs}
    parts = {family: parts.get(family) or old_part(family, old) for family in FAMILIES}
    whole = [
        "# Benchmark results",
        "Medians of interleaved rounds. Ratios are taken within a round, between neighbours in "
        "time; absolute times move by a factor of two on a shared machine. Each step's result is "
        "on disk before the next step begins. Of work that one process does, a round asks three "
        "processes of each engine and takes the one in the middle: which core one is on counts.",
        *(f"{BEGIN.format(family)}\n\n{text}\n\n{END.format(family)}"
          for family, text in parts.items() if text),
        "## The work",
        works_table(),
        "## Run it again",
        AGAIN,
    ]  # fmt: skip
    return "\n\n".join(whole) + "\n"


def old_part(family: str, page: str) -> str:
    _, _, after = page.partition(BEGIN.format(family))
    return after.partition(END.format(family))[0].strip()


def part(run: Run) -> str:
    """Return what `RESULTS.md` says of one family."""
    small = " This was a quick run, good for a glance only." if run.quick else ""
    title = FAMILIES[run.family]
    parts = [
        f"## {title}",
        f"Written by `python -m benchmarks` on {run.date}, at commit `{run.commit}`: a run "
        f"of {run.rounds} round{'s' * (run.rounds != 1)}." + small,
        f"![Holdfast on {title} beside its peers]({picture(run.family)})",
        "### Targets",
        f"Holdfast on {title}, against the peers and the raw limit of the same run.",
        targets_table(run),
        "### Figures",
        figures_table(run),
        variants(run),
        RAW[run.family],
        "### Disk syncs a step",
        SYNCS[run.family],
        syncs_table(run),
        "### Settings",
        "Read back from each engine's own connection.",
        settings_table(run),
        "### Machine and versions",
        machine_table(run),
        calibration(run),
    ]
    if run.failures:
        parts += ["### Not measured", "\n".join(f"- {failure}" for failure in run.failures)]
    return "\n\n".join(part for part in parts if part)


def figures_table(run: Run) -> str:
    header = ["", "", "", *(contender.title for contender in run.contenders)]
    rows = []
    for figure in FIGURES.values():
        values = [run.figures.median(contender.name, figure.key) for contender in run.contenders]
        if figure.work in run.works and any(value is not None for value in values):
            cells = [NONE if value is None else number(value) for value in values]
            name = f"{figure.work.upper()} {WORKS[figure.work].name}"
            rows.append([name, figure.title.format(run.size), figure.unit, *cells])
    return table(header, rows) if rows else "Nothing was measured."


def targets_table(run: Run) -> str:
    header = ["", "", "measured", "rounds", "target", "met", "stretch", "reached"]
    rows = [target_cells(verdict) for verdict in run.verdicts]
    return table(header, rows) if rows else "No target belongs to this work."


def target_cells(verdict: Verdict) -> list[str]:
    target, value = verdict.target, verdict.value
    sign = "≤" if target.bound == "at most" else "≥"
    stretch = "" if target.stretch is None else f"{sign} {target.stretch:g}"
    return [
        f"{target.work.upper()} {WORKS[target.work].name}",
        target.what,
        "not measured" if value is None else f"{number(value)} {target.unit}",
        " ".join(number(one) for one in verdict.rounds),
        f"{sign} {target.goal:g}",
        MARKS[verdict.met],
        stretch,
        MARKS[verdict.stretched],
    ]


def syncs_table(run: Run) -> str:
    if not run.syncs:
        return "Not counted in this run."
    titles = {contender.name: contender.title for contender in run.contenders}
    ways = {"chain": "one after another", "crowd": "50 at a time"}
    rows = [
        [
            titles[count.contender],
            ways[count.way],
            count.syncs if isinstance(count.syncs, str) else number(count.syncs),
            NONE if count.commits is None else number(count.commits),
        ]
        for count in run.syncs
    ]
    return table(["", "", "syncs", COUNTED[run.family]], rows)


def settings_table(run: Run) -> str:
    found = {c.title: run.figures.settings(c.name) for c in run.contenders}
    names = sorted({name for settings in found.values() for name in settings})
    rows = [
        [title, *(settings.get(name, NONE) for name in names)]
        for title, settings in found.items()
        if settings
    ]
    return table(["", *names], rows) if rows else "None were read."


def works_table() -> str:
    rows = [[f"{w.id.upper()} {w.name}", w.what.format(FULL)] for w in WORKS.values()]
    return table(["work", "what"], rows)


def variants(run: Run) -> str:
    """Say in which way each engine was driven for its figures."""
    lines = []
    for contender in run.contenders:
        picked = {
            f"{figure.work.upper()} {variant}": None
            for figure in FIGURES.values()
            if (variant := run.figures.variant(contender.name, figure.key))
        }
        if picked:
            lines.append(f"- {contender.title}: {', '.join(picked)}.")
    told = "Where an engine can be driven in several ways, each figure is its best:"
    return "\n".join([told, "", *lines]) if lines else ""


def machine_table(run: Run) -> str:
    peers = sorted({contender.engine for contender in run.contenders if contender.is_peer})
    versions = [[peer, ", ".join(pins(peer).split())] for peer in peers]
    return table(["", ""], [*map(list, run.machine.items()), *versions])


def calibration(run: Run) -> str:
    """Say how evenly the machine ran: a fixed loop and 4 KiB syncs after every measurement."""
    cpu, syncs = run.figures.machine("cpu_ms"), run.figures.machine("syncs_s")
    if not cpu or not syncs:
        return "Not calibrated."
    noisy = cpu[2] > 2 * cpu[0] or syncs[2] > 4 * syncs[0]
    told = " The machine was not quiet: trust ratios, not absolute times." if noisy else ""
    return (
        "Taken after every measurement: a fixed Python loop took "
        f"{number(cpu[0])} to {number(cpu[2])} ms (median {number(cpu[1])}), and the disk synced "
        f"{number(syncs[0])} to {number(syncs[2])} blocks a second (median {number(syncs[1])})."
        + told
        + pace(run)
    )


def pace(run: Run) -> str:
    """Say how this machine compares with the one on which milliseconds were promised."""
    raw = run.figures.median(f"raw/{run.family}", "step_ms")
    if raw is None:
        return ""
    return (
        f" One raw commit took {number(raw)} ms; where the targets in milliseconds were set it "
        f"took {number(GOALS[run.family].raw_ms)}."
    )
