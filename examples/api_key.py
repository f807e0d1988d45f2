"""A key of the workers' and a token of a customer's: steps use them, and nothing stored tells them.

Run it: python examples/api_key.py
"""

import asyncio
import os
from pathlib import Path

import holdfast as hf

app = hf.App("sync", secrets=hf.EnvSecrets(prefix="SYNC_"))
STORE = Path("sync.db")
TOKEN, KEY = "ada-7f3c9", "sk-live-4711"


@app.step(secrets=["api-key", "token"])
async def fetch(account: str, page: int) -> list[str]:
    key, token = hf.secret("api-key"), hf.secret("token")
    hf.log.info("page %d of %s with %s and %s", page, account, key, token)  # masked
    if (key.reveal(), token.reveal()) != (KEY, TOKEN):
        raise hf.NonRetryable(f"{token.reveal()} is not known")  # masked too
    return [f"{account}-{page}{letter}" for letter in "ab"]


@app.workflow
async def sync(account: str) -> list[str]:
    return [mail for page in (1, 2) for mail in await fetch(account, page)]


async def main() -> None:
    ring = hf.KeyRing({"2026-11": hf.KeyRing.new_key()})  # as a rule from HOLDFAST_KEYS
    async with app.open(f"sqlite:///{STORE}", keys=ring) as client:
        token = hf.Secret(TOKEN)
        run = await client.start(sync.bind("ada"), secrets={"token": token})
        # No worker has the key yet: the run waits, and no attempt is counted.
        while "api-key" not in (why := (await run.describe()).reason):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print("it waits:", why)
        await run.supply_secret("api-key", hf.Secret(KEY))  # or put it where the provider looks
        print(await run.result())
        [last, *_] = [line.message async for line in run.logs()][::-1]
        print(last)
    kept = b"".join(file.read_bytes() for file in Path().glob(f"{STORE}*") if file.is_file())
    print("in the database:", sum(secret.encode() in kept for secret in (TOKEN, KEY)), "of 2")


if __name__ == "__main__":
    os.environ.pop("SYNC_API_KEY", None)
    asyncio.run(main())
