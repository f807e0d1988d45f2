"""A shopping cart for each customer: it keeps its state for years and does one thing at a time.

Run it: python examples/cart.py
"""

import asyncio
from dataclasses import dataclass, field

import holdfast as hf

app = hf.App("shop")
CENTS = {"lamp": 4_900, "desk": 12_900}


@app.step
async def price(item: str) -> int:
    return CENTS[item]


@app.entity
@dataclass
class Cart:
    key: str
    items: dict[str, int] = field(default_factory=dict[str, int])
    cents: int = 0

    @hf.update
    async def add(self, item: str, n: int = 1) -> str:
        self.cents += n * await price(item)  # a crash here, and it goes on here
        self.items[item] = self.items.get(item, 0) + n
        return f"{self.items[item]} of {item}, {self.cents / 100:.2f} in all"

    @add.validator
    def _is_sold(self, item: str, n: int = 1) -> None:
        if item not in CENTS:
            raise ValueError(f"{item} is not sold here")  # nothing of it is recorded

    @hf.update
    async def check_out(self) -> str:
        hf.end_entity()
        return f"{self.key} pays {self.cents / 100:.2f}"

    @hf.query
    def count(self) -> int:
        return sum(self.items.values())


async def main() -> None:
    async with app.open("sqlite:///cart.db") as client:
        cart = client.entity(Cart, "ada")  # it begins with its first update
        for click, item in enumerate(("lamp", "desk", "lamp", "moon")):
            try:  # the same click counts once, whoever repeats it
                print(await cart.options(id=f"click {click}").update(Cart.add, item))
            except hf.UpdateRejected as refused:
                print(refused.message)
        print(await cart.query(Cart.count), "things")
        print(await cart.options(id="over").update(Cart.check_out))


if __name__ == "__main__":
    asyncio.run(main())
