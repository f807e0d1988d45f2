"""An app whose runs are talked to by the tests of the command line."""

import holdfast as hf

app = hf.App("talking")
add = hf.Update("add", int, int)
late = hf.Update("late", int)
total = hf.Query("total", int)
share = hf.Query("share", int, float)
done = hf.Signal("done", bool)


@app.workflow
async def sums() -> int:
    numbers: list[int] = []

    def put(n: int) -> int:
        numbers.append(n)
        return sum(numbers)

    def check(n: int) -> None:
        if n < 0:
            raise ValueError("too small")

    hf.handle(add, put, validate=check)
    hf.handle(total, lambda: sum(numbers))
    hf.handle(share, lambda of: sum(numbers) / of)
    await hf.wait_for(done)
    hf.handle(late, lambda: 7)
    await hf.wait_for(done)
    return sum(numbers)
