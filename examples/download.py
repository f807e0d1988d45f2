"""A download that goes on at its last byte, however often the line breaks or the worker dies.

Run it: python examples/download.py    (from a server of its own, which hangs up all the time)
"""

import asyncio
import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import holdfast as hf

app = hf.App("download")
BOOK = bytes(range(256)) * 400
PORT = [0]  # of the server; no part of any run


@app.step(retry=hf.Retry(max_attempts=10, initial=0.01), heartbeat_timeout=30)
def fetch(name: str) -> str:
    done = hf.last_heartbeat(int) or 0  # what the last attempt had, on whichever worker it ran
    hf.log.info("from byte %d", done)
    line = HTTPConnection("localhost", PORT[0], timeout=10)
    line.request("GET", f"/{name}", headers={"Range": f"bytes={done}-"})
    answer = line.getresponse()
    total = done + int(answer.headers["Content-Length"])
    with Path(name).open("r+b" if done else "wb") as file:
        file.seek(done)
        while chunk := answer.read(4_096):
            file.write(chunk)
            file.flush()
            done += len(chunk)
            hf.heartbeat(done)  # costs nothing: it is written with the next commit, or soon
    line.close()
    if done < total:
        raise ConnectionError(f"{done} of {total} bytes")
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


@app.workflow
async def download(name: str) -> str:
    return await fetch(name)


class Flaky(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        begin = int(self.headers["Range"][6:-1])
        self.send_response(206)
        self.send_header("Content-Length", str(len(BOOK) - begin))
        self.end_headers()
        self.wfile.write(BOOK[begin : begin + 30_000])  # and then it hangs up

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving() -> Generator[None]:
    with ThreadingHTTPServer(("localhost", 0), Flaky) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        PORT[0] = server.server_port
        yield
        server.shutdown()


async def main() -> None:
    with serving():
        async with app.open("sqlite:///download.db") as client:
            run = await client.start(download.bind("book.bin"), id="book")
            print("whole" if await run.result() == hashlib.sha256(BOOK).hexdigest() else "broken")
            print([line.message async for line in run.logs()])


if __name__ == "__main__":
    asyncio.run(main())
