"""Blobs in a bucket of S3, or of whatever speaks like it. Needs the extra `s3`.

An object is there whole or not at all, and durable once the server has said so. The keys to the
bucket are found as those of other tools are: in the environment, or by the machine's own role.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.errors import MissingExtra, StoreSettings, StoreUnavailable
from holdfast.ports.blobs import Blob

if TYPE_CHECKING:
    from obstore.store import S3Store

OPTIONS = frozenset({"endpoint", "region"})
PATIENCE = timedelta(seconds=30)
"""How long one request may take, with the attempts after the first."""


class S3Blobs:
    """Keeps blobs in a bucket, below a prefix: `s3://bucket/prefix?endpoint=http://host:8333`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self._bucket, self._prefix = parts.netloc, unquote(parts.path).strip("/")
        unknown = sorted(self._options.keys() - OPTIONS)
        if not self._bucket or unknown:
            told = f"unknown option {unknown[0]!r}" if unknown else "no bucket"
            raise StoreSettings(
                f"Blobs at {url!r}: {told}. Use s3://bucket/prefix, and ?endpoint=http://host:8333 "
                f"or &region=name where needed."
            )
        self._store: S3Store | None = None

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    async def open(self) -> None:
        """Make the client; whether the bucket answers is seen by the first request."""
        self._store = self._made()

    async def close(self) -> None:
        """Let go of the client."""
        self._store = None

    async def put(self, name: str, data: bytes) -> None:
        """Keep the object."""
        with self._trouble():
            await self._opened.put_async(self._key(name), data, use_multipart=False)

    async def get(self, name: str) -> bytes | None:
        """Read the object, if it is there."""
        with self._trouble():
            try:
                found = await self._opened.get_async(self._key(name))
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def list(self) -> AsyncIterator[Sequence[Blob]]:
        """Yield the objects below the prefix."""
        with self._trouble():
            pages: Any = cast("Any", self._opened).list(self._prefix or None)
            async for page in pages:
                yield [_blob(each) for each in page]

    async def delete(self, names: Sequence[str]) -> None:
        """Remove objects."""
        if names:
            with self._trouble():
                await self._opened.delete_async([self._key(name) for name in names])

    def _made(self) -> S3Store:
        try:
            from obstore.store import S3Store
        except ModuleNotFoundError as error:
            raise MissingExtra(what="A blob store in S3", extra="s3") from error
        endpoint = self._options.get("endpoint", "")
        given: dict[str, Any] = {"bucket": self._bucket}
        if endpoint:
            given["endpoint"] = endpoint
            # A server on the way to which nothing needs keys; one that does has them in its URL's
            # environment, as AWS_ACCESS_KEY_ID.
            given["skip_signature"] = "AWS_ACCESS_KEY_ID" not in os.environ
        given["region"] = self._options.get("region") or os.environ.get("AWS_REGION", "us-east-1")
        return S3Store(
            **given,
            client_options={
                "timeout": PATIENCE,
                "connect_timeout": timedelta(seconds=5),
                "allow_http": endpoint.startswith("http://"),
            },
            retry_config={"max_retries": 2, "retry_timeout": PATIENCE},
        )

    @property
    def _opened(self) -> S3Store:
        if self._store is None:
            raise StoreUnavailable(f"The blobs at {self} are not open. Open the store first.")
        return self._store

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self._prefix, name[:2], name)))

    @contextmanager
    def _trouble(self) -> Generator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            told = str(error).strip().splitlines()[0][:200]
            raise StoreUnavailable(
                f"The blobs at {self} cannot be used: {told}. Try again."
            ) from error


def _blob(found: Any) -> Blob:
    name: str = found["path"].rpartition("/")[2]
    return Blob(name, found["size"], round(found["last_modified"].timestamp() * 1e6))
