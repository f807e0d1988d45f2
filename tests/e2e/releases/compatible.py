"""Another way to ship, and a step behind all that open runs have done."""

import holdfast as hf

app = hf.App("shop")
paid = hf.Signal("paid", bool)


@app.step
async def reserve(item: str) -> str:
    return f"reserved {item}"


@app.step
async def ship(item: str) -> str:
    return f"sent {item}"


@app.step
async def thank(item: str) -> str:
    return f"thanks for {item}"


@app.workflow
async def checkout(item: str) -> list[str]:
    done = [await reserve(item)]
    await hf.wait_for(paid)
    done.append(await ship(item))
    done.append(await thank(item))
    return done
