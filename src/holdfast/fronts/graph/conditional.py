"""`process_conditional`: one of several functions, as another one says.

It works anywhere. In the body of a workflow, or in a node with `body=True`, the handlers may be
steps, or code of the body that calls some.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from holdfast.errors import ConditionalError
from holdfast.fronts.graph.calling import begun
from holdfast.fronts.graph.telling import Listener, problem_of, telling

S = TypeVar("S")
Handler = Callable[[S], Awaitable[S]] | Callable[[S], S]
Chooser = Callable[[S], Awaitable[str]] | Callable[[S], str]

FALLBACK = "default"


async def process_conditional(
    state: S,
    predicate: Chooser[S],
    routes: Mapping[str, Handler[S]],
    default: Handler[S] | None = None,
    *,
    observer: Listener | None = None,
) -> S:
    """Call the one of `routes` that `predicate(state)` names, or `default`; return what it returns.

    Whatever fails raises `ConditionalError`, with the state as it was. `observer` is told which
    route was taken; in a body, the observers of the graph are.
    """
    async with telling("process_conditional", observer) as told:
        told("route.evaluate", route_count=len(routes))
        try:
            route = await begun(predicate, state)
        except Exception as error:
            raise ConditionalError(route="", state=state, cause=error) from error
        handler = routes.get(route) if isinstance(route, str) else None
        if handler is None and default is None:
            listed = ", ".join(routes) or "none"
            problem = f"route {route!r:.60} not found and no default handler; there are: {listed}"
            raise ConditionalError(route="", state=state, problem=problem)
        chosen, named = (default, FALLBACK) if handler is None else (handler, route)
        assert chosen is not None  # noqa: S101 - else there was an error above
        told("route.select", route=named, has_default=default is not None)
        try:
            after: S = await begun(chosen, state)
        except BaseException as error:
            told("route.execute", route=named, **problem_of(error))
            if not isinstance(error, Exception):
                raise
            raise ConditionalError(route=named, state=state, cause=error) from error
        told("route.execute", route=named, error=False)
    return after
