"""A TCP proxy before a PostgreSQL: a pooler that takes no settings, or a link that goes deaf."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0"


class Proxy:
    """`url` is its address. While it `swallows`, nothing that the server says comes through."""

    def __init__(self, upstream: str, *, refuses_settings: bool) -> None:
        self.url = ""
        self.swallows = False
        self._up, self._refuses = urlsplit(upstream), refuses_settings
        self._pumps: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = self._up._replace(netloc=f"{self._up.username}@127.0.0.1:{port}").geturl()

    async def close(self) -> None:
        self._server.close()
        for each in self._pumps:
            each.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await _startup(reader, writer)
        if self._refuses and b"statement_timeout" in first:
            writer.write(b"E" + (len(REFUSAL) + 4).to_bytes(4, "big") + REFUSAL)
            writer.close()
            return
        from_server, to_server = await asyncio.open_connection(self._up.hostname, self._up.port)
        to_server.write(first)
        ways = (self._pump(reader, to_server), self._pump(from_server, writer, answers=True))
        self._pumps.update(map(asyncio.create_task, ways))

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        try:
            while read := await source.read(65_536):
                if not (answers and self.swallows):
                    target.write(read)
                    await target.drain()
        except ConnectionError:
            return
        finally:
            target.close()


async def _startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the first packet with parameters; encryption is declined."""
    while True:
        size = await reader.readexactly(4)
        packet = size + await reader.readexactly(int.from_bytes(size, "big") - 4)
        if packet != SSL_REQUEST:
            return packet
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
