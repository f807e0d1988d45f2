"""The command: measure, print, and write `RESULTS.md` and `results.svg`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import calibrate, plot, report, rounds, syncs, targets
from benchmarks.contenders import CONTENDERS, CannotInstall, Contender, interpreter
from benchmarks.driver import ROOT
from benchmarks.figures import Figures
from benchmarks.rows import Row
from benchmarks.work import WORKS

HERE = Path(__file__).parent


def main() -> int:
    asked = arguments()
    contenders, interpreters, failures = ready(asked.only)
    plan = rounds.Plan(contenders, interpreters, asked.work, asked.rounds, asked.quick)
    rows, failed = rounds.run(plan, say)
    counts = syncs.count(contenders, interpreters, say) if "w1" in asked.work else []
    run = summarise(plan, rows, counts, [*failures, *failed])
    say("\n" + report.terminal(run))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    write(run, asked.results, is_whole=asked.is_whole)
    return 1 if run.failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = sorted({contender.engine for contender in CONTENDERS})
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 3; quick: 1)")
    parser.add_argument("--only", type=listed, default=names, help=f"of {','.join(names)}")
    parser.add_argument("--work", type=listed, default=list(WORKS), help=f"of {','.join(WORKS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    parser.add_argument("--results", type=Path, help="where RESULTS.md and results.svg go")
    asked = parser.parse_args()
    for given, known in ((asked.only, names), (asked.work, list(WORKS))):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}. Choose of {', '.join(known)}.")
    asked.rounds = asked.rounds or (1 if asked.quick else 3)
    asked.is_whole = (
        not asked.quick and set(asked.only) == set(names) and set(asked.work) == set(WORKS)
    )
    return asked


def listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def ready(only: Sequence[str]) -> tuple[list[Contender], dict[str, str], list[str]]:
    """Return who can be measured, with which Python, and who cannot and why."""
    interpreters: dict[str, str] = {}
    failures: dict[str, str] = {}
    wanted = [contender for contender in CONTENDERS if contender.engine in only]
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
    plan: rounds.Plan, rows: list[Row], counts: Sequence[syncs.Count], failures: Sequence[str]
) -> report.Run:
    figures = Figures(rows)
    return report.Run(
        figures=figures,
        verdicts=targets.judge(figures, plan.works, quick=plan.quick),
        syncs=counts,
        contenders=plan.contenders,
        works=plan.works,
        rounds=plan.rounds,
        quick=plan.quick,
        date=datetime.now(UTC).date().isoformat(),
        commit=commit(),
        machine=calibrate.describe(),
        failures=failures,
    )


def write(run: report.Run, chosen: Path | None, *, is_whole: bool) -> None:
    """Keep a whole run in the repository; keep a partial one only where the user said."""
    if chosen is None and not (is_whole and not run.failures):
        say("\nRESULTS.md is left as it was: this run was partial. (--results DIR keeps it.)")
        return
    place = chosen or HERE
    place.mkdir(parents=True, exist_ok=True)
    (place / "RESULTS.md").write_text(report.markdown(run))
    (place / "results.svg").write_text(plot.svg(run))
    say(f"\nWritten: RESULTS.md and results.svg in {place}")


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
