"""A program whose steps try hard to tell their secrets. `python canary.py URL` runs it."""

import asyncio
import logging
import os
import sys
from base64 import b64encode

import holdfast as hf

app = hf.App("canary", secrets=hf.EnvSecrets(prefix="CANARY_"), logs=["canary"])
log = logging.getLogger("canary")
MARKER = "this is told on purpose"


class Refused(Exception):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(f"refused: {url}")


@app.step(secrets=["own", "given"], retry=hf.Retry(max_attempts=3, initial=0))
async def connect(text: str) -> str:
    own, given = hf.secret("own"), hf.secret("given").reveal()
    log.debug("%s %s", own, own.reveal())
    hf.log.warning("log in with %s: %s", given, text, extra={"token": given})
    hf.heartbeat({"at": text})
    if hf.attempt() == 1:
        try:
            raise ValueError(b64encode(f"user:{own.reveal()}".encode()).decode())
        except ValueError as error:
            log.exception("it failed")
            raise ConnectionError(f"https://{own.reveal()}@host refused {given!r}") from error
    return text


@app.step(secrets=["own"], raises=[Refused])
async def refuse() -> None:
    raise Refused(f"https://ada:{hf.secret('own').reveal()}@host")


@app.step(secrets=["own"])
async def leak() -> str:
    return f"Bearer {hf.secret('own').reveal()}"


@app.step(secrets=["given"])
async def hang() -> int:
    print("hanging", flush=True)
    if os.environ.get("HANG"):
        await asyncio.sleep(3_600)
    return len(hf.secret("given").reveal())


@app.workflow
async def good(text: str) -> int:
    for step in (leak, refuse):
        try:
            await step()
        except (hf.StepFailed, Refused) as error:
            hf.log.error("caught %s", error)
    await connect(text)
    return await hang()


@app.workflow
async def bad(text: str) -> None:
    await connect(text)
    await refuse()


walk = app.graph("walk")
lose = app.graph("lose")


@walk.node(retry=hf.Retry(max_attempts=3, initial=0))
async def look(state: hf.State) -> hf.State:
    given = state.get_secret("given")
    assert given is not None
    log.debug("%s %s %s", state, state.get_secret("given"), given.reveal())
    hf.log.warning("%s: log in with %s", state["text"], given.reveal())
    if hf.attempt() == 1:
        raise ConnectionError(f"refused {given.reveal()!r} of {state}")
    return state.set("length", len(given.reveal())).clone()


@walk.node
async def wait(state: hf.State) -> hf.State:
    await hang()
    return state.delete_secret("given")


@walk.node
def forgetful(state: hf.State) -> dict[str, object]:
    return {"is_gone": state.get_secret("given") is None}


def is_long(state: hf.State) -> bool:
    log.debug("%s with %s", state, dict(state.secrets))
    return bool(state["length"] > 3)


walk.add_edge(hf.START, look).add_edge(look, wait, is_long).add_edge(wait, forgetful)
walk.add_edge(forgetful, hf.END)


@lose.node
def tell(state: hf.State) -> hf.State:
    given = state.get_secret("given")
    return state.set("told", given.reveal() if given else "")


lose.add_edge(hf.START, tell).add_edge(tell, hf.END)


async def main(url: str) -> None:
    secrets = {"given": hf.Secret(os.environ["GIVEN"])}
    state = hf.State({"text": MARKER}).set_secret("given", os.environ["GIVEN"])
    async with app.open(url, settings=hf.Settings(flush=0.01)) as client:
        for flow in (good, bad):
            await client.start(flow.bind(MARKER), id=flow.name, secrets=secrets)
        for graph in (walk, lose):
            await client.start(graph.bind(state), id=graph.name)
        assert await client.get("good", good).result() == len(os.environ["GIVEN"])
        ended = await client.get("walk", walk.workflow).result()
        assert ended["is_gone"], ended
        for name in ("bad", "lose"):
            try:
                await client.get(name).result()
            except hf.RunFailed as error:
                print(error, error.traceback, error.details)
            else:
                raise AssertionError(name)


if __name__ == "__main__":
    logging.basicConfig(level="DEBUG")
    asyncio.run(main(sys.argv[1]))
