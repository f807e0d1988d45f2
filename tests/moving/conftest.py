"""Each test of a move runs between every two kinds of stores that processes share."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.postgres import PostgresServer
from tests.moving import shop
from tests.moving.places import WAYS, Urls, move


@pytest.fixture(params=WAYS)
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Urls]:
    """The addresses of two empty stores."""
    kinds = str(request.param).split("-")
    if "postgres" not in kinds:
        yield f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as first, server.database() as second:
        files = (f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}")
        source, target = (
            file if kind == "sqlite" else url
            for kind, file, url in zip(kinds, files, (first, second), strict=True)
        )
        yield source, target


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with something of everything in it; made once, for others to copy."""
    file = tmp_path_factory.mktemp("kept") / "kept.db"
    asyncio.run(shop.fill(f"sqlite:///{file}"))
    return file


@pytest.fixture
def full(urls: Urls, kept: Path, tmp_path: Path) -> Urls:
    """Two stores, the first with something of everything, quicker than by doing it all again."""
    copy = tmp_path / ("a.db" if urls[0].startswith("sqlite") else "copy.db")
    shutil.copy(kept, copy)
    if copy.name == "copy.db":
        asyncio.run(move(f"sqlite:///{copy}", urls[0], id="before"))
    return urls
