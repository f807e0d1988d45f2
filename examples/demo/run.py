"""`make demo`: an order is killed in the middle of a step, and goes on in another process.

Everything is real: two worker processes of `holdfast worker`, SIGKILL, an SQLite file. The demo
checks every claim it prints and exits 1 if one of them is not true.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import holdfast as hf

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import shop  # noqa: E402  (it lies beside this file)

SHOP = str(HERE / "shop.py")
CLI = [sys.executable, "-m", "holdfast"]
RUN = "order-42"
PATIENCE = 20.0
IN_COLOUR = bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
IN_COLOUR = IN_COLOUR and not os.environ.get("NO_COLOR")


class Demo:
    """One order, two workers, one kill."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'shop.db'}"
        self.journal = folder / "journal.txt"
        self.journal.touch()
        foreign = ("FORCE_COLOR", "HOLDFAST_")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        own = {"SHOP_JOURNAL": str(self.journal), "HOLDFAST_STORE": self.url}
        self.env = {**inherited, **own}
        self.workers: list[subprocess.Popen[str]] = []
        self.began = time.monotonic()
        self.killed_at = 0
        self.false_claims = 0

    # --- telling

    def tell(self, text: str) -> None:
        """Say what happens now."""
        print(f"{painted(f'{time.monotonic() - self.began:5.1f} s', '90')}  {text}", flush=True)

    def claim(self, is_true: bool, text: str) -> None:
        """Say something that was checked."""
        mark = painted("✓", "32") if is_true else painted("✗ NOT TRUE:", "31;1")
        self.false_claims += not is_true
        print(f"         {mark} {text}", flush=True)

    # --- acting

    def start_worker(self) -> subprocess.Popen[str]:
        """Start `holdfast worker` and return once it says that it works."""
        worker = subprocess.Popen(
            [*CLI, "worker", SHOP], env=self.env, stderr=subprocess.PIPE, text=True
        )
        self.workers.append(worker)
        assert worker.stderr is not None
        greeting = worker.stderr.readline()
        if "holdfast worker" not in greeting:
            sys.exit(f"The worker did not start: {greeting}{worker.stderr.read()}")
        return worker

    def stop_workers(self) -> None:
        """Leave no process behind."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait(timeout=PATIENCE)
            if worker.stderr is not None:
                worker.stderr.close()

    def executions(self) -> Counter[str]:
        """How often each step really ran, by its own word."""
        return Counter(self.journal.read_text("utf-8").split())

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Look every few milliseconds, and give up in the end."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                sys.exit(f"Waited {PATIENCE:.0f} s in vain: {what}")
            time.sleep(0.005)

    def kill_and_take_over(self, first: subprocess.Popen[str]) -> None:
        """SIGKILL in the middle of `pack`; a second worker goes on."""
        self.wait_until(lambda: self.executions()["pack"] == 1, "pack began")
        time.sleep(0.3)
        before = self.executions()
        first.kill()
        first.wait()
        killed, self.killed_at = time.monotonic(), time.time_ns() // 1_000
        self.tell(f"{painted('SIGKILL', '31;1')} to worker {first.pid}, in the middle of `pack`")
        self.claim(first.returncode == -9, "it had no chance to clean up")
        second = self.start_worker()
        ready = time.monotonic()
        self.wait_until(lambda: self.executions()["pack"] == 2, "pack began again")
        going = time.monotonic()
        self.tell(f"worker {second.pid} took the order over")
        self.claim(
            going - ready < 1,
            f"it went on {going - ready:.2f} s after it was up, "
            f"{going - killed:.2f} s after the kill",
        )
        lease = hf.Settings().lease
        self.claim(
            going - self.began < lease, f"the dead worker's lease of {lease:.0f} s had not ended"
        )
        after = self.executions()
        kept = all(after[step] == before[step] for step in ("reserve", "charge"))
        self.claim(kept, "`reserve` and `charge` were not run again: their results were stored")

    async def finish(self) -> tuple[hf.Event, ...]:
        """Send the signal and wait for the end, as any client would."""
        async with shop.app.open(self.url, worker=False) as client:
            order = client.get(RUN, shop.checkout)
            async with asyncio.timeout(PATIENCE):
                async for event in order.events():
                    if event.kind == "timer.fired":
                        break
            row = await order.describe()
            self.tell("the timer has fired; now the order waits for the van")
            is_parked = (row.status, row.owner) == ("waiting", None)
            self.claim(is_parked, "no worker holds it: it may wait for a year")
            self.claim(row.reason == "signal picked_up", f"it waits for: {row.reason}")
            await order.signal(shop.picked_up, "van 3")
            result = await asyncio.wait_for(order.result(), PATIENCE)
            self.tell(f"the signal came, and the order is done: {painted(result, '1')}")
            self.claim(result == "your lamp is in van 3", "the result is what the body returned")
            history = await order.history()
            status = history.run.status
            self.claim(status == "completed", f"{history.run.seq} events, status {status}")
            return history.events

    def compare(self, events: tuple[hf.Event, ...]) -> None:
        """Tell what ran how often, by the steps' own journal, and who recorded it."""
        ran = self.executions()
        recorded = [(event.key, event.at) for event in events if event.kind == "step.completed"]
        expected = {
            "reserve": (1, "first", "reused by the second"),
            "charge": (2, "first", "reused by the second; the bank was away at first: a retry"),
            "pack": (2, "second", "cut short by the kill, so it ran again"),
            "notify": (1, "second", "ran when the signal came"),
        }
        print(painted("\n  STEP     RAN  RECORDED", "90"))
        for step, (times, worker, why) in expected.items():
            # Before the kill only the first worker lived, after it only the second.
            by = ["first" if at < self.killed_at else "second" for key, at in recorded
                  if key == f"{step}#1"]  # fmt: skip
            is_true = ran[step] == times and by == [worker]
            self.false_claims += not is_true
            mark = painted("✓", "32") if is_true else painted("✗ NOT TRUE:", "31;1")
            told = f"once, by the {worker} worker; {why}"
            print(f"  {step:<8} {ran[step]}x  {mark} {painted(told, '90')}")


def painted(text: str, code: str) -> str:
    """Return the text in colour, if there is colour here."""
    return f"\033[{code}m{text}\033[0m" if IN_COLOUR else text


def main() -> None:
    """Run the demo."""
    print(painted("Holdfast: an order survives the death of its worker\n", "1"))
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        demo = Demo(Path(folder))
        try:
            play(demo)
        finally:
            demo.stop_workers()
    if demo.false_claims:
        sys.exit(f"{demo.false_claims} of the claims above are not true.")
    print(painted("Everything above was checked. The code is examples/demo/shop.py.", "1"))


def play(demo: Demo) -> None:
    """The story, from the first worker to the timeline."""
    first = demo.start_worker()
    demo.tell(f"worker {first.pid} is up")
    command = ["run", "checkout", "-i", "item=lamp", "-i", "cents=4900", "--key", RUN]
    started = subprocess.run(
        [*CLI, *command, "--app", SHOP], env=demo.env, stdout=subprocess.PIPE, text=True, check=True
    )
    demo.tell(f"holdfast {' '.join(command)}")
    demo.claim(started.stdout == f"{RUN}\n", "the order is stored; its id came back")
    demo.kill_and_take_over(first)
    demo.compare(asyncio.run(demo.finish()))
    print(painted(f"\n$ holdfast runs show {RUN}", "1"), flush=True)
    env = {**demo.env, "FORCE_COLOR": "1", "NO_COLOR": "" if IN_COLOUR else "1"}
    shown = subprocess.run([*CLI, "runs", "show", RUN], env=env, check=False)
    doctor = subprocess.run([*CLI, "doctor"], env=demo.env, stdout=subprocess.DEVNULL, check=False)
    print()
    demo.claim(
        shown.returncode == 0, "that timeline was read from the file by a process of its own"
    )
    demo.claim(doctor.returncode == 0, "holdfast doctor finds every invariant in order")


if __name__ == "__main__":
    main()
