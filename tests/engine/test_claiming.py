"""When a worker that took runs looks at all others, and which runs it asks for by name."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.hosts.worker.claiming import FEW, HEAD_START, REST, Rest
from holdfast.model.writes import Notice
from holdfast.testing.loop import VirtualLoop


def on_virtual_time(main: Coroutine[Any, Any, None]) -> None:
    VirtualLoop().run(main)  # type: ignore[abstract]


def ready(run: str, ns: str = "shop") -> Notice:
    return Notice(ns, run, "ready")


def test_hints_of_more_runs_do_not_put_the_look_off() -> None:
    async def main() -> None:
        rest = Rest("shop")
        rest.end(pause=1)
        rest.hear(ready("a"))
        assert (rest.begin(), rest.is_over) == (REST, False)
        await asyncio.sleep(REST / 2)
        rest.hear(ready("b"))
        assert abs(rest.begin() - REST / 2) < 1e-6
        await asyncio.sleep(REST)
        assert (rest.begin(), rest.is_over) == (0, True)
        rest.end(pause=1)
        assert not rest.is_over

    on_virtual_time(main())


def test_what_only_a_look_shows_is_looked_for_soon() -> None:
    async def main() -> None:
        for notice in (Notice(), Notice("shop", "r", "mail"), Notice(what="moved")):
            rest = Rest("shop")
            rest.hear(ready("a"))
            rest.hear(notice)
            assert rest.begin() == HEAD_START
            rest.end(pause=1)
            assert rest.begin() == REST, "that was for the look before"

    on_virtual_time(main())


def test_a_run_that_is_due_is_not_missed_meanwhile() -> None:
    async def main() -> None:
        rest = Rest("shop")
        rest.end(pause=REST / 4)
        assert abs(rest.begin() - REST / 4) < 1e-6

    on_virtual_time(main())


def test_runs_are_asked_for_by_name_if_nothing_else_was_heard() -> None:
    rest = Rest("shop")
    rest.hear(ready("a"))
    rest.hear(ready("b"))
    assert rest.hints() == ("a", "b")
    assert rest.hints() == (), "each is asked for once"
    for other in (Notice(what="ready"), Notice(), ready("c", ns="other")):
        rest.hear(ready("a"))
        rest.hear(other)
        assert rest.hints() == ()
    for n in range(FEW + 1):
        rest.hear(ready(f"r{n}"))
    assert rest.hints() == (), "a crowd is searched for"
