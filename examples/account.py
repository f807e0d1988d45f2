"""Bank accounts as entities, and transfers between them that are never done twice, nor by half.

Run it: python examples/account.py
"""

import asyncio
from dataclasses import dataclass

import holdfast as hf

app = hf.App("bank")
DOOR: list[hf.Client] = []  # by which steps of this process reach the accounts


@app.entity
@dataclass
class Account:
    cents: int = 0

    @hf.update
    async def change(self, cents: int) -> int:
        self.cents += cents
        return self.cents

    @change.validator
    def _is_covered(self, cents: int) -> None:
        if self.cents + cents < -10_000:
            raise ValueError(f"{self.cents / 100:.2f} does not cover {-cents / 100:.2f}")

    @hf.query
    def balance(self) -> int:
        return self.cents


@app.step
async def book(owner: str, cents: int, id: str) -> int:
    account = DOOR[-1].entity(Account, owner)
    try:
        return await account.options(id=id).update(Account.change, cents)  # one id counts once
    except (hf.UpdateRejected, hf.RunClosed) as refused:
        raise hf.NonRetryable(str(refused)) from refused


@app.workflow
async def transfer(payment: str, source: str, target: str, cents: int) -> str:
    await book(source, -cents, f"{payment} out")  # refused: nothing has happened
    try:
        await book(target, cents, f"{payment} in")
    except hf.StepFailed:
        await book(source, cents, f"{payment} back")
        raise
    return f"{source} paid {target} {cents / 100:.2f}"


async def main() -> None:
    async with app.open("sqlite:///account.db") as client:
        DOOR.append(client)
        for payment, (source, target, cents) in {
            "rent": ("ada", "bob", 6_000),
            "car": ("ada", "bob", 900_000),
            "book": ("bob", "ada", 1_500),
        }.items():
            for _ in range(2):  # a caller that is not sure just asks again
                run = await client.start(transfer.bind(payment, source, target, cents), id=payment)
                try:
                    print(await run.result())
                except hf.RunFailed as error:
                    print(f"{payment}: {error.status}")
        for owner in ("ada", "bob"):
            print(owner, await client.entity(Account, owner).query(Account.balance))


if __name__ == "__main__":
    asyncio.run(main())
