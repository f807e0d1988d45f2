"""Entities: each update counts once, alone, whatever dies and whenever the run continues."""

from dataclasses import dataclass, field

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, effect

app = hf.App("crash-entities")


@app.step(retry=hf.Retry(max_attempts=1))
async def book(cents: int) -> int:
    effect(cents)
    if cents == 13:
        raise ValueError("unlucky")
    return cents


@app.entity(continue_after=4)
@dataclass
class Account:
    cents: int = 0
    booked: list[int] = field(default_factory=list)

    @hf.update
    async def change(self, cents: int) -> int:
        self.cents += cents
        self.booked.append(await book(cents))
        return self.cents

    @change.validator
    def _covered(self, cents: int) -> None:
        if self.cents + cents < 0:
            raise ValueError("no money")

    @hf.update
    async def close(self) -> int:
        hf.end_entity()
        return self.cents


OPEN = app.entity_of(Account)
CHANGES = {100: ("completed", 100), 13: ("failed", "StepFailed"), -200: ("rejected", "ValueError"),
           -30: ("completed", 70)}  # fmt: skip


async def run_account(caller: Caller) -> None:
    run, start = "Account:ada", OPEN.bind("ada")
    for cents, wanted in CHANGES.items():
        change, id = Account.change.talk, f"of {cents}"
        ended = await caller.update_with_start(start, change, ((cents,), {}), run, id)
        assert ended == wanted, cents
    again = await caller.update_with_start(start, Account.change.talk, ((100,), {}), run, "of 100")
    assert again == CHANGES[100]
    over = await caller.update_with_start(start, Account.close.talk, ((), {}), run, "over")
    assert over == ("completed", 70)
    assert (await caller.result(run)).status == "completed"


ENTITIES = (Scenario("entity", app, run_account, apart=True, workers=1, flavours=("stall",)),)
