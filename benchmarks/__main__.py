"""The command: measure, print, and write `RESULTS.md` and its pictures."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import calibrate, plot, postgres, report, rounds, syncs, targets
from benchmarks.contenders import CONTENDERS, FAMILIES, CannotInstall, Contender, interpreter
from benchmarks.driver import ROOT
from benchmarks.figures import Figures
from benchmarks.rows import Row
from benchmarks.work import WORKS

HERE = Path(__file__).parent


def main() -> int:
    asked = arguments()
    runs = [measure(family, asked) for family in asked.store]
    for run in runs:
        say("\n" + report.terminal(run))
    if asked.json:
        rows = [asdict(row) for run in runs for row in run.figures.rows]
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    write(runs, asked.results, is_whole=asked.is_whole)
    return 1 if any(run.failures for run in runs) else 0


def measure(family: str, asked: argparse.Namespace) -> report.Run:
    """Measure all contenders on one kind of database, in interleaved rounds."""
    contenders, interpreters, failures = ready(family, asked.only)
    works = [work for work in asked.work if any(work in one.works for one in contenders)]
    plan = rounds.Plan(contenders, interpreters, works, asked.rounds, asked.quick)
    with postgres.server() if family == postgres.STORE else contextlib.nullcontext():
        rows, failed = rounds.run(plan, say)
        counts = syncs.count(contenders, interpreters, say) if "w1" in works else []
        version = postgres.psql("SHOW server_version") if family == postgres.STORE else ""
    return summarise(family, plan, rows, counts, [*failures, *failed], version)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = sorted({contender.engine for contender in CONTENDERS})
    choices = {"store": list(FAMILIES), "only": names, "work": list(WORKS)}
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 3; quick: 1)")
    for name, known in choices.items():
        parser.add_argument(f"--{name}", type=listed, default=known, help=f"of {','.join(known)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    parser.add_argument("--results", type=Path, help="where RESULTS.md and the pictures go")
    asked = parser.parse_args()
    for name, known in choices.items():
        if unknown := set(getattr(asked, name)) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}. Choose of {', '.join(known)}.")
    asked.rounds = asked.rounds or (1 if asked.quick else 3)
    asked.is_whole = (
        not asked.quick and set(asked.only) == set(names) and set(asked.work) == set(WORKS)
    )
    return asked


def listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def ready(family: str, only: Sequence[str]) -> tuple[list[Contender], dict[str, str], list[str]]:
    """Return who can be measured, with which Python, and who cannot and why."""
    interpreters: dict[str, str] = {}
    failures: dict[str, str] = {}
    wanted = [one for one in CONTENDERS if one.family == family and one.engine in only]
    for contender in wanted:
        engine = contender.engine
        if engine in interpreters or engine in failures:
            continue
        say(f"ready   {engine}")
        try:
            interpreters[engine] = interpreter(contender)
        except CannotInstall as error:
            failures[engine] = f"{engine}: {error}"
            say(failures[engine])
    able = [contender for contender in wanted if contender.engine in interpreters]
    return able, interpreters, list(failures.values())


def summarise(
    family: str,
    plan: rounds.Plan,
    rows: list[Row],
    counts: Sequence[syncs.Count],
    failures: Sequence[str],
    version: str,
) -> report.Run:
    figures = Figures(rows)
    return report.Run(
        family=family,
        figures=figures,
        verdicts=targets.judge(family, figures, plan.works, quick=plan.quick),
        syncs=counts,
        contenders=plan.contenders,
        works=plan.works,
        rounds=plan.rounds,
        quick=plan.quick,
        date=datetime.now(UTC).date().isoformat(),
        commit=commit(),
        machine=calibrate.describe(version),
        failures=failures,
    )


def write(runs: Sequence[report.Run], chosen: Path | None, *, is_whole: bool) -> None:
    """Keep a whole run in the repository; keep a partial one only where the user said.

    The part of a database that was not measured now stays as it was.
    """
    kept = [run for run in runs if chosen or (is_whole and not run.failures)]
    if not kept:
        say("\nRESULTS.md is left as it was: this run was partial. (--results DIR keeps it.)")
        return
    place = chosen or HERE
    place.mkdir(parents=True, exist_ok=True)
    page = place / "RESULTS.md"
    page.write_text(report.markdown(kept, page.read_text() if page.exists() else ""))
    for run in kept:
        (place / report.picture(run.family)).write_text(plot.svg(run))
    say(f"\nWritten: RESULTS.md and the pictures in {place}")


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
