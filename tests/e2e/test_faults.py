"""What the promises say of a full disk, a clock that jumps, a blocked loop and a killed upgrade."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.e2e.processes import ROOT, Yard

Record = Callable[[str, object], None]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", ["pages", "file"])
async def test_a_full_disk_is_a_state_that_heals(
    how: str, yard: Yard, record_property: Record
) -> None:
    command = [sys.executable, "-m", "tests.e2e.full", str(yard.path), how]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=80, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    record_property("e2e", f"disk full ({how}): refused {told['late']}, then {told['healed']}")
    assert told["during"] == {"status": "running", "executions": ["first"]}
    assert told["executions"] == ["first", "second"], "the result in hand was kept"
    assert told["result"] == 1_000_003
    assert len(told["logged"]) == 1, "told once, not once a try"
    assert len(told["healed"]) == 1
    refused = [kind for kind in told["late"] if kind != "accepted"]
    assert set(refused) == {"StoreFull"}
    assert "late-0" not in told["listed"] or told["late"][0] == "accepted"
    held = await yard.dump()
    stored = {run.id for run in held.runs} - {"r"}
    assert stored == {f"late-{n}" for n in range(3) if told["late"][n] == "accepted"}
