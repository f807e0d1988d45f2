"""A thousand addresses checked a hundred at a time; three of them may be bad.

Run it: python examples/fan_out.py
"""

import asyncio
import os
import tempfile

import holdfast as hf

app = hf.App("fan-out")


class Unreachable(Exception):
    """The address does not answer."""


@app.step(retry=hf.Retry(max_attempts=2, initial=0.01), raises=[Unreachable])
async def check(number: int) -> int:
    if number in (17, 170, 707):
        raise Unreachable(f"address {number}")
    return number % 7


@app.step
async def report(total: int, bad: list[int]) -> str:
    return f"{total} in all, without {bad}"


@app.workflow
async def campaign(addresses: int) -> str:
    found = await hf.map(check, range(addresses), limit=100, tolerate=3)
    total = sum(item.value for item in found if item.ok)
    return await report(total, [item.index for item in found if not item.ok])


@app.workflow
async def campaigns(parts: int, addresses: int) -> list[str]:
    # More than one run should do: each part is a run of its own.
    return await hf.map(campaign, [addresses] * parts, limit=10)


async def main() -> None:
    os.chdir(tempfile.mkdtemp())
    async with app.open("sqlite:///fan_out.db") as client:
        run = await client.start(campaign.bind(1_000), id="spring")
        print(await run.result())
        strict = await client.start(campaigns.bind(2, 100), id="summer")
        print(await strict.result())


if __name__ == "__main__":
    asyncio.run(main())
