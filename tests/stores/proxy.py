"""A TCP proxy before a PostgreSQL: a pooler that takes no settings, or a link that goes deaf.

It can also cut its links after so many bytes, and say to clients what no server has said.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0"
UNENCRYPTED = b"SFATAL\0C28000\0Mno pg_hba.conf entry for host, no encryption\0\0"


class Proxy:
    """`url` is its address. While it `swallows`, nothing that the server says comes through."""

    def __init__(self, upstream: str, *, refuses_settings: bool) -> None:
        self.url = ""
        self.swallows = False
        self.budget = sys.maxsize
        """How many bytes of answers come through, all in all, before every link is cut, once."""
        self.cuts = True
        """Whether links are cut then, or swallow the rest."""
        self.greetings: list[str] = []
        """How each link began: `tls` was asked for, or it was `plain`."""
        self.wants_tls = False
        """Whether who does not ask for it is sent away."""
        self._links: set[asyncio.StreamWriter] = set()
        self._up, self._refuses = urlsplit(upstream), refuses_settings
        self._pumps: set[asyncio.Task[None]] = set()
        self._startups: set[asyncio.Task[tuple[bytes, bool]]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = self._up._replace(netloc=f"{self._up.username}@127.0.0.1:{port}").geturl()

    async def close(self) -> None:
        self._server.close()
        for each in (*self._pumps, *self._startups):
            each.cancel()
        await asyncio.gather(*self._pumps, *self._startups, return_exceptions=True)

    def say(self, message: bytes) -> None:
        """Say something to every client, as if the server did."""
        for link in self._links:
            link.write(message)

    def cut(self) -> None:
        """End every link."""
        self.budget = sys.maxsize
        for link in self._links:
            link.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = asyncio.create_task(_startup(reader, writer))
        self._startups.add(startup)
        try:
            first, asked = await startup
        except (EOFError, ConnectionError, asyncio.CancelledError):  # it has thought better of it
            writer.close()
            return
        self.greetings.append("tls" if asked else "plain")
        refusal = REFUSAL if self._refuses and b"statement_timeout" in first else b""
        refusal = UNENCRYPTED if self.wants_tls and not asked else refusal
        if refusal:
            writer.write(b"E" + (len(refusal) + 4).to_bytes(4, "big") + refusal)
            writer.close()
            return
        from_server, to_server = await asyncio.open_connection(self._up.hostname, self._up.port)
        to_server.write(first)
        self._links.add(writer)
        ways = (self._pump(reader, to_server), self._pump(from_server, writer, answers=True))
        self._pumps.update(map(asyncio.create_task, ways))

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        try:
            while read := await source.read(65_536):
                if answers and self.swallows:
                    continue
                if answers:
                    read, self.budget = read[: max(self.budget, 0)], self.budget - len(read)
                target.write(read)
                await target.drain()
                if self.budget < 0 and self.cuts:
                    self.cut()
        except ConnectionError:
            return
        finally:
            self._links.discard(target)
            target.close()


async def _startup(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[bytes, bool]:
    """Return the first packet with parameters, and if encryption was asked for. It is declined."""
    asked = False
    while True:
        size = await reader.readexactly(4)
        packet = size + await reader.readexactly(int.from_bytes(size, "big") - 4)
        if packet != SSL_REQUEST:
            return packet, asked
        asked = True
        writer.write(b"N")


@asynccontextmanager
async def proxied(upstream: str, *, refuses_settings: bool = False) -> AsyncIterator[Proxy]:
    """A proxy in front of a server, at another address."""
    proxy = Proxy(upstream, refuses_settings=refuses_settings)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
