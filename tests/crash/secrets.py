"""The scenarios of the sweep in which steps need secrets: kept in memory, and encrypted."""

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-secrets")
go = hf.Signal("go", int)
TEXT = "hunter22-hunter22"
RING = hf.KeyRing({"k1": bytes(range(32))})


@app.step(secrets=["token"], retry=hf.Retry(initial=1, jitter=False))
async def charge(cents: int) -> int:
    token = hf.secret("token").reveal()
    effect(cents)
    hf.log.info("charge with %s", token)
    if hf.attempt() == 1:
        raise ConnectionError(f"the bank does not know {token}")
    return cents


@app.workflow
async def charging(cents: int) -> int:
    first = await charge(cents)
    return first + await charge(await hf.wait_for(go))


async def run_given(caller: Caller) -> None:
    await caller.start(charging.bind(5), "given", secrets={"token": hf.Secret(TEXT)})
    await caller.signal("given", go, 7, "g1")
    assert await caller.result("given") == ("completed", 12)


async def run_supplied(caller: Caller) -> None:
    await caller.start(charging.bind(5), "given", secrets={"token": hf.Secret(TEXT)})
    await caller.start(charging.bind(1), "supplied")
    await caller.until("supplied", "waiting")
    await caller.supply("supplied", "token", hf.Secret(TEXT))
    await caller.signal("supplied", go, 2, "g2")
    assert await caller.result("supplied") == ("completed", 3)
    await caller.terminate("given")


def nothing_tells_it(world: World) -> list[str]:
    """I17: the text of a secret is in nothing that is stored."""
    return ["I17: a secret is stored in clear"] if TEXT in repr(world.dump) else []


SECRETS = (
    Scenario("secrets", app, run_given, check=nothing_tells_it),
    Scenario(
        "secrets-sealed", app, run_supplied, apart=True, workers=1, keys=RING, either=True,
        check=nothing_tells_it,
    ),
)  # fmt: skip
