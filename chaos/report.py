"""The report: what the terminal shows, what `docs/design/chaos.md` keeps, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from chaos import verdict
from chaos.flows import TOILED, ticked
from chaos.rounds import Finding

SHOWN = 20
"""Violations that are printed one by one."""

PAGE = Path(__file__).with_name("page.md")
"""What the page says around the table."""


def table(findings: Sequence[Finding]) -> str:
    """Return one column a store."""
    rows = [("", *(found.version for found in findings)), ("---", *("---:" for _ in findings))]
    figures = [figures_of(found) for found in findings]
    rows += [(name, *(each[name] for each in figures)) for name in figures[0]]
    kinds = sorted({kind for found in findings for kind in found.faults})
    rows += [(f"fault: {kind}", *(_fault(found, kind) for found in findings)) for kind in kinds]
    rows += [("**violations**", *(f"**{len(found.violations)}**" for found in findings))]
    return _aligned(rows)


def figures_of(found: Finding) -> Mapping[str, str]:
    """Return what there is to tell of a round, in words."""
    counts = counted(found)
    slowest = f"{counts['recovery_median']:.1f} s, {counts['recovery_max']:.1f} s"
    return {
        "runs": f"{counts['runs']:,}",
        "steps recorded": f"{counts['steps']:,}",
        "executions in the journal": f"{counts['executions']:,}",
        "of these executed again": f"{counts['again']:,}",
        "jobs recorded, runs started by the clock": f"{counts['jobs']:,}, {counts['scheduled']:,}",
        "signals, cancels acknowledged": f"{counts['signals']:,}, {counts['cancels']:,}",
        "calls the driver repeated": f"{counts['repeated']:,}",
        "zombies fenced (commits refused)": f"{counts['fenced']:,}",
        "runs hit": f"{counts['hit']:,}",
        "recovery, median and maximum": slowest if found.stops else "-",
        "faults": f"{counts['faults']:,}",
    }


def counted(found: Finding) -> dict[str, Any]:
    """Return the same as numbers."""
    evidence, seconds = found.evidence, [stop.seconds for stop in found.stops]
    events = [event for events in evidence.dump.events.values() for event in events]
    lines = evidence.pages.lines
    told = evidence.told.values()
    return {
        "runs": len(evidence.dump.runs),
        "steps": sum(event.kind == "step.completed" for event in events),
        "executions": len(lines),
        "again": len(lines) - len({(line.run, line.key, line.attempt) for line in lines}),
        "jobs": sum(
            event.kind == "step.completed" and event.key.startswith(TOILED) for event in events
        ),
        "scheduled": sum(run.workflow == ticked.name for run in evidence.dump.runs),
        "signals": sum(len(each.signals) for each in told),
        "cancels": sum(each.cancel == "accepted" for each in told),
        "repeated": found.repeated,
        "fenced": verdict.fenced(evidence),
        "hit": len(seconds),
        "recovery_median": median(seconds) if seconds else 0.0,
        "recovery_max": max(seconds, default=0.0),
        "faults": found.faults.total(),
    }


def document(found: Finding) -> dict[str, Any]:
    """Return a round for programs."""
    return {
        "store": found.plan.store,
        "version": found.version,
        "seed": found.plan.seed,
        "seconds": found.plan.seconds,
        **counted(found),
        "faults_by_kind": dict(found.faults),
        "drained": found.drained,
        "violations": [str(violation) for violation in found.violations],
        "kept": found.folder,
    }


def violations(found: Finding) -> str:
    """Return each violation with the seed; empty if there is none."""
    if not found.violations:
        return ""
    shown = [f"violation ({found.version}, seed {found.plan.seed}): {each}"
             for each in found.violations[:SHOWN]]  # fmt: skip
    if len(found.violations) > SHOWN:
        shown.append(f"and {len(found.violations) - SHOWN:,} more")
    return "\n".join([*shown, f"kept: {found.folder}"])


def page(findings: Sequence[Finding], *, date: str, commit: str, machine: str) -> str:
    """Return `docs/design/chaos.md`."""
    plan = findings[0].plan
    missing = [f"{found.version}: {', '.join(found.absent)}" for found in findings if found.absent]
    absent = f"Did not occur: {'; '.join(missing)}.\n" if missing else ""
    return PAGE.read_text().format(
        table=table(findings), hosts=plan.hosts, seconds=plan.seconds, seed=plan.seed,
        lease=plan.lease, window=plan.window, date=date, commit=commit, machine=machine,
        absent=absent,
    )  # fmt: skip


def _fault(found: Finding, kind: str) -> str:
    if kind not in found.faults and kind not in found.absent:
        return "-"
    times = found.faults[kind]
    seconds = [stop.seconds for stop in found.stops if stop.kind == kind]
    if not seconds:
        return f"{times}"
    return f"{times} (recovery {median(seconds):.1f} s, {max(seconds):.1f} s)"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
