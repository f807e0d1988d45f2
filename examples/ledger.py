"""A ledger in the database of the runs: each transfer is booked exactly once, whatever crashes.

Run it: python examples/ledger.py
"""

import asyncio

import holdfast as hf

app = hf.App("ledger")


@app.transaction
def open_books(tx: hf.Transaction, accounts: list[str]) -> None:
    tx.execute("CREATE TABLE IF NOT EXISTS ledger_entries (account TEXT, cents INTEGER)")
    for account in accounts:
        book(tx, account, 10_000)


@app.transaction
def transfer(tx: hf.Transaction, source: str, target: str, cents: int) -> None:
    if balance_of(tx, source) < cents:
        raise hf.NonRetryable(f"{source} has too little")  # nothing of it is kept
    book(tx, source, -cents)
    book(tx, target, cents)


@app.transaction
def balances(tx: hf.Transaction, accounts: list[str]) -> dict[str, int]:
    return {account: balance_of(tx, account) for account in accounts}


def book(tx: hf.Transaction, account: str, cents: int) -> None:
    tx.execute("INSERT INTO ledger_entries VALUES (:account, :cents)", account=account, cents=cents)


def balance_of(tx: hf.Transaction, account: str) -> int:
    asked = "SELECT sum(cents) AS cents FROM ledger_entries WHERE account = :account"
    return int(tx.execute(asked, account=account)[0]["cents"])


@app.workflow
async def settle(debts: list[tuple[str, str, int]]) -> dict[str, int]:
    accounts = sorted({account for *pair, _ in debts for account in pair})
    await open_books(accounts)
    for source, target, cents in debts:
        try:
            await transfer(source, target, cents)
        except hf.StepFailed as error:
            hf.log.warning("%s to %s: %s", source, target, error.message)
    return await balances(accounts)


async def main() -> None:
    async with app.open("sqlite:///ledger.db") as client:
        debts = [("ada", "bob", 2_500), ("bob", "eve", 12_000), ("ada", "eve", 90_000)]
        run = await client.start(settle.bind(debts), id="november")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
