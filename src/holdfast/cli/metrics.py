"""`--metrics [HOST:]PORT`: what a worker counts, served for Prometheus."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.terminal import STDERR

if TYPE_CHECKING:
    from holdfast.app import App

LOCAL = "127.0.0.1"
PORTS = 65_535


def address(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Return the host and the port that were typed. Raises `BadParameter`."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > PORTS:
        told = f"{value!r:.60} is no port, nor HOST:PORT. Try 9464, or 0.0.0.0:9464."
        raise click.BadParameter(told, ctx, param)
    return host.strip("[]") or LOCAL, int(port)


@contextmanager
def metrics_of(app: App, address: tuple[str, int] | None) -> Generator[None]:
    """Count what the app's workers commit and serve it meanwhile, if there is an address."""
    if address is None:
        yield
        return
    from holdfast.sinks.prometheus import PrometheusObserver

    host, port = address
    own = [each for each in app.observers if isinstance(each, PrometheusObserver)]
    observer = own[0] if own else PrometheusObserver()
    if not own:
        app.observe(observer)
    try:
        port, stop = observer.serve(port, host)
    except OSError as error:
        told = f"Metrics cannot be served at {host}:{port}: {error.strerror or error}."
        raise click.ClickException(told) from error
    shown = f"[{host}]" if ":" in host else host
    STDERR.say(STDERR.dim(f"metrics at http://{shown}:{port}/metrics"))
    try:
        yield
    finally:
        stop()
