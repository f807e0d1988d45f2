"""The command: break each store for a while, print what was counted, fail on a violation."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime

from chaos import report
from chaos.fleet import ROOT
from chaos.places import STORES
from chaos.plan import Plan
from chaos.rounds import play

PAGE = ROOT / "docs" / "design" / "chaos.md"


def main() -> int:
    asked = arguments()
    say(f"seed {asked.seed}  (repeat the work and the faults with --seed {asked.seed})")
    findings = []
    for store in asked.store:
        say(f"{store}: {asked.seconds:g} s of faults, then until all runs have ended")
        found = asyncio.run(play(Plan(store, asked.seconds, asked.seed)))
        findings.append(found)
        if told := report.violations(found):
            say(told)
    say("\n" + report.table(findings))
    if asked.json:
        print(json.dumps([report.document(found) for found in findings], indent=1))
    if asked.write:
        PAGE.write_text(report.page(findings, date=today(), commit=commit(), machine=machine()))
        say(f"\nWritten: {PAGE.relative_to(ROOT)}")
    return 1 if any(found.violations for found in findings) else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults, on each store")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--store", choices=STORES, action="append", help="only this one")
    parser.add_argument("--json", action="store_true", help="print what was counted as JSON")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    asked = parser.parse_args()
    asked.store = asked.store or list(STORES)
    return asked


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"


def machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def say(line: str) -> None:
    """Tell a person; what is for programs goes to the standard output."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
