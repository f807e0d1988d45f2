"""An AI agent: the model picks a tool, steps carry it out, a person approves what is dangerous.

Run it: python examples/agent.py
"""

import asyncio

import holdfast as hf

app = hf.App("agent")
approval = hf.Signal("approval", bool)


@app.step(retry=hf.Retry(max_attempts=8), timeout=120)
async def ask_model(messages: list[dict[str, str]]) -> dict[str, str]:
    """Stands for a language model. A paid answer is stored, and never asked for again."""
    used = [message["tool"] for message in messages if message["role"] == "tool"]
    if "search" not in used:
        return {"role": "assistant", "tool": "search", "input": messages[0]["text"]}
    if "send_mail" not in used:
        return {"role": "assistant", "tool": "send_mail", "input": messages[-1]["text"]}
    return {"role": "assistant", "text": f"Done: {messages[-1]['text']}."}


@app.step
async def search(text: str) -> str:
    return f"three results for {text!r}"


@app.step
async def send_mail(text: str) -> str:
    return f"mail sent with {text}"


TOOLS = {"search": search, "send_mail": send_mail}


@app.workflow
async def agent(task: str) -> str:
    messages = [{"role": "user", "text": task}]
    while True:
        reply = await ask_model(messages)
        if "text" in reply:
            return reply["text"]
        tool = reply["tool"]
        may = tool != "send_mail" or await hf.wait_for(approval)  # a person may take a week
        text = await TOOLS[tool](reply["input"]) if may else "a person said no"
        messages += [reply, {"role": "tool", "tool": tool, "text": text}]


async def main() -> None:
    async with app.open("memory://") as client:
        run = await client.start(agent.bind("durable workflows"))
        await run.signal(approval, True)
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
