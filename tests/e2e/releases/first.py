"""The shop as it was when the runs were started."""

import holdfast as hf

app = hf.App("shop")
paid = hf.Signal("paid", bool)


@app.step
async def reserve(item: str) -> str:
    return f"reserved {item}"


@app.step
async def ship(item: str) -> str:
    return f"shipped {item}"


@app.workflow
async def checkout(item: str) -> list[str]:
    done = [await reserve(item)]
    await hf.wait_for(paid)
    done.append(await ship(item))
    return done
