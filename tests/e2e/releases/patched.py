"""A step before all others, for runs that begin with it."""

import holdfast as hf

app = hf.App("shop")
paid = hf.Signal("paid", bool)


@app.step
async def reserve(item: str) -> str:
    return f"reserved {item}"


@app.step
async def ship(item: str) -> str:
    return f"shipped {item}"


@app.step
async def check(item: str) -> str:
    return f"checked {item}"


@app.workflow
async def checkout(item: str) -> list[str]:
    done: list[str] = []
    if hf.patched("check first"):
        done.append(await check(item))
    done.append(await reserve(item))
    await hf.wait_for(paid)
    done.append(await ship(item))
    return done
