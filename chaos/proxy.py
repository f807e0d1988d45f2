"""The wire between a host and PostgreSQL, and how it breaks.

A *gate* listens on a port of its own and passes everything on to the server. It can delay, cut,
or hold back all that passes, and it can swallow an answer: the server has carried the statement
out and committed it, the client never hears of it, and the connection is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Self

CHUNK = 1 << 16
ASKS = frozenset(b"BQ")
"""Messages of a client with which a statement is carried out: Bind, and Query."""
COMPLETE, FAILED, READY = ord("C"), ord("E"), ord("Z")
IDLE = b"I"
"""What a server adds to *ready* when no transaction is open: what came before is committed."""


class Frames:
    """Cuts a stream of the PostgreSQL protocol into messages."""

    def __init__(self, *, is_client: bool) -> None:
        self._rest = bytearray()
        self._is_first = is_client  # a client's first message has no letter
        self.startup = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield letter and body of each message that is whole now."""
        self._rest += chunk
        while True:
            letter = 0 if self._is_first else 1
            if len(self._rest) < letter + 4:
                return
            size = int.from_bytes(self._rest[letter : letter + 4], "big") + letter
            if len(self._rest) < size:
                return
            message = bytes(self._rest[:size])
            del self._rest[:size]
            if self._is_first:
                self._is_first, self.startup = False, message
            else:
                yield message[0], message[5:]


class Wire:
    """One connection through a gate: two pumps."""

    def __init__(
        self, gate: Gate, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        self._gate, self._client, self._server = gate, client, server
        self._asked, self._answered = Frames(is_client=True), Frames(is_client=False)
        self._is_asked = self._is_complete = False
        self._held = bytearray()

    def cut(self) -> None:
        """End both sides at once, as a reset does."""
        for side in (self._client, self._server):
            side.transport.abort()

    async def to_server(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the client says."""
        while chunk := await reader.read(CHUNK):
            await self._gate.passes()
            for letter, _ in self._asked.feed(chunk):
                self._is_asked = self._is_asked or letter in ASKS
            self._server.write(chunk)
            await self._server.drain()

    async def to_client(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the server says, unless it is to be swallowed."""
        while chunk := await reader.read(CHUNK):
            await self._gate.passes()
            if self._swallows(chunk):
                self._gate.swallowed()
                self.cut()
                return
            if not self._is_in_question:
                self._client.write(bytes(self._held) + chunk)
                self._held.clear()
                await self._client.drain()
            else:
                self._held += chunk

    @property
    def _is_in_question(self) -> bool:
        return self._is_asked and self._gate.wants(self._asked.startup)

    def _swallows(self, chunk: bytes) -> bool:
        """Tell whether this ends the answer to a statement that is committed now."""
        swallows = False
        for letter, body in self._answered.feed(chunk):
            if letter in (COMPLETE, FAILED):
                self._is_complete = letter == COMPLETE
            elif letter == READY:
                is_committed = self._is_complete and body == IDLE
                swallows = swallows or (is_committed and self._is_in_question)
                self._is_asked = self._is_complete = False
        return swallows


class Gate:
    """The way of one host to the server."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._wires: set[Wire] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._victim = b""
        self._bite = asyncio.Event()
        self.delay = 0.0
        """Seconds that everything takes, in each direction."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        self.cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        """End every connection that is open now."""
        for wire in tuple(self._wires):
            wire.cut()

    def hold(self) -> None:
        """Let nothing pass any more; nobody is told."""
        self._open.clear()

    def heal(self) -> None:
        """Let pass again, with what was held back."""
        self._open.set()
        self.delay, self._victim = 0.0, b""

    async def swallow(self, purpose: str, seconds: float) -> bool:
        """Swallow the next answer to a committed statement on connections of that purpose.

        Return whether there was one within the time.
        """
        self._victim = f"application_name\0{purpose}\0".encode()
        self._bite.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bite.wait()
        self._victim = b""
        return self._bite.is_set()

    def wants(self, startup: bytes) -> bool:
        """Tell whether an answer on a connection that began so is to be swallowed."""
        return bool(self._victim) and self._victim in startup

    def swallowed(self) -> None:
        """Note that an answer was swallowed: one is enough."""
        self._victim = b""
        self._bite.set()

    async def passes(self) -> None:
        """Return when something may pass."""
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._open.wait()

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            await self._open.wait()
            await self._pump(reader, client)
        except asyncio.CancelledError:
            return  # the round is over; the streams module would call it an error
        except OSError:
            client.transport.abort()  # the server is away
        finally:
            self._pumps.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection(*self._target)
        wire = Wire(self, client, server)
        self._wires.add(wire)
        pumps = [
            asyncio.create_task(wire.to_server(reader)),
            asyncio.create_task(wire.to_client(answers)),
        ]
        try:
            # When one side has ended, so has the other: PostgreSQL knows no half-closed sessions.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            wire.cut()
            self._wires.discard(wire)
