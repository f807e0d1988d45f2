"""W11 of Holdfast: chains of transactional steps, each of which adds a row to a table."""

from __future__ import annotations

import holdfast as hf
from benchmarks.flows import app
from benchmarks.pace import as_exact, measure
from benchmarks.work import STEPS, Size, small_result


@app.transaction
def open_books(tx: hf.Transaction) -> None:
    tx.execute("CREATE TABLE bench_rows (i INTEGER, note TEXT)")


@app.transaction
def add_row(tx: hf.Transaction, i: int) -> dict[str, object]:
    tx.execute("INSERT INTO bench_rows VALUES (:i, :note)", i=i, note="x" * 40)
    return small_result(i)


@app.transaction
def count_rows(tx: hf.Transaction) -> int:
    return int(tx.execute("SELECT count(*) AS n FROM bench_rows")[0]["n"])


@app.workflow
async def opening() -> None:
    await open_books()


@app.workflow
async def exact_chain(n: int) -> int:
    done = 0
    for i in range(n):
        done += bool(await add_row(i))
    return done


@app.workflow
async def counting() -> int:
    return await count_rows()


async def exact_figures(client: hf.Client, size: Size) -> dict[str, float]:
    """Return how long a transactional step takes, and how many are done in a second."""
    done = 0

    async def chain() -> None:
        nonlocal done
        steps = await (await client.start(exact_chain.bind(STEPS))).result()
        done += steps

    await (await client.start(opening.bind())).result()
    figures = as_exact(await measure(chain, size))
    rows = await (await client.start(counting.bind())).result()
    if rows != done:
        raise RuntimeError(f"{done} steps were done, and {rows} rows written")
    return figures
