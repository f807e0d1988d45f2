"""The interleaved rounds: every piece of work, contender by contender, one process each.

All contenders do one piece before any does the next, so that what is compared was measured
within seconds; and each round begins with another contender.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import Contender
from benchmarks.driver import ROOT
from benchmarks.figures import Figures
from benchmarks.rows import Row, from_line
from benchmarks.tables import number
from benchmarks.work import FIGURES, FULL, QUICK, WORKS

TIME_LIMIT = 600  # seconds for one piece of work; a peer that hangs must not hang the run


@dataclass(frozen=True, slots=True)
class Plan:
    contenders: Sequence[Contender]
    interpreters: Mapping[str, str]  # contender's engine -> python
    works: Sequence[str]
    rounds: int
    quick: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """One contender doing one piece of work in one round."""

    round: int
    work: str
    contender: Contender


Say = Callable[[str], None]


def run(plan: Plan, say: Say) -> tuple[list[Row], list[str]]:
    """Return all rows, and a sentence for each piece of work that failed."""
    rows: list[Row] = []
    failures: list[str] = []
    for piece in pieces(plan):
        began = time.perf_counter()
        got, failure = measure(piece, plan)
        rows += got
        spent = time.perf_counter() - began
        say(progress(piece, plan, got, failure, spent))
        if failure:
            failures.append(f"{piece.contender.name} {piece.work}: {failure}")
    return rows, failures


def pieces(plan: Plan) -> Iterator[Piece]:
    for round_ in range(1, plan.rounds + 1):
        for work in plan.works:
            if round_ > 1 and not WORKS[work].each_round:
                continue
            turn = (round_ - 1) % len(plan.contenders)
            for contender in (*plan.contenders[turn:], *plan.contenders[:turn]):
                if work in contender.works:
                    yield Piece(round_, work, contender)


def measure(piece: Piece, plan: Plan) -> tuple[list[Row], str]:
    """Run the driver as often as the work asks; return its rows, and why it failed, if it did."""
    size = QUICK if plan.quick else FULL
    rows: list[Row] = []
    for _ in range(size.processes if WORKS[piece.work].is_lone else 1):
        command = command_for(piece.contender, plan.interpreters, "--work", piece.work)
        os.sync()  # the disk first writes what the contender before has left to it
        got, failure = ask(command + ["--quick"] * plan.quick, piece.round)
        rows += got
        if failure:
            return rows, failure
    return rows, ""


def command_for(contender: Contender, interpreters: Mapping[str, str], *rest: str) -> list[str]:
    python = interpreters[contender.engine]
    return [python, "-m", contender.module, "--store", contender.store, *rest]


def ask(command: list[str], round_: int) -> tuple[list[Row], str]:
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"not done after {TIME_LIMIT} s"
    rows = [row for line in ended.stdout.splitlines() if (row := from_line(line, round_))]
    if ended.returncode == 0 and rows:
        return rows, ""
    last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    return rows, f"status {ended.returncode}: {last[:200]}"


def progress(piece: Piece, plan: Plan, rows: list[Row], failure: str, spent: float) -> str:
    where = f"round {piece.round}/{plan.rounds}  {piece.work}  {piece.contender.title:<17}"
    return f"{where} {spent:6.1f} s  {failure or leading_figures(rows, piece.contender.name)}"


def leading_figures(rows: list[Row], contender: str) -> str:
    """Say the leading figures of this piece of work, as the report will."""
    found = Figures(rows)
    leading = (figure for figure in FIGURES.values() if not figure.follows)
    values = [(found.median(contender, figure.key), figure.unit) for figure in leading]
    return ", ".join(f"{number(value)} {unit}" for value, unit in values if value is not None)
