"""Where an app's secrets come from: the environment, files, a function, or several of these."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.errors import BadDefinition
from holdfast.model.secrets import Secret, checked_secret_name
from holdfast.ports.secrets import SecretProvider

Given = str | Secret | None


class EnvSecrets:
    """Variables of the environment: with `prefix="SHOP_"`, `stripe-key` is `SHOP_STRIPE_KEY`."""

    def __init__(self, *, prefix: str = "") -> None:
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"EnvSecrets(prefix={self._prefix!r})"

    async def get(self, name: str) -> Secret | None:
        """Return the value of the variable; an empty one counts as missing."""
        mapped = "".join(mark if mark.isalnum() else "_" for mark in name).upper()
        return _secret(os.environ.get(f"{self._prefix}{mapped}"))


class FileSecrets:
    """Files of a directory, each with the name of its secret; one line break at the end is cut."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def __repr__(self) -> str:
        return f"FileSecrets({str(self._directory)!r})"

    async def get(self, name: str) -> Secret | None:
        """Return what the file holds."""
        try:
            text = (self._directory / checked_secret_name(name)).read_text("utf-8")
        except FileNotFoundError:
            return None
        return _secret(text.removesuffix("\n").removesuffix("\r"))


class CallableSecrets:
    """A function of the name, sync or async, that returns a text, a `Secret` or None.

    A sync one must be quick: it runs in the worker's event loop.
    """

    def __init__(self, function: Callable[[str], Given | Awaitable[Given]]) -> None:
        if not callable(function):
            raise BadDefinition(
                what="CallableSecrets was given something that cannot be called",
                hint="Write hf.CallableSecrets(lambda name: vault.read(name)).",
            )
        self._function = function

    def __repr__(self) -> str:
        return f"CallableSecrets({getattr(self._function, '__qualname__', '...')})"

    async def get(self, name: str) -> Secret | None:
        """Return what the function gives."""
        found = self._function(name)
        return _secret(await found if inspect.isawaitable(found) else found)


class ChainSecrets:
    """Several providers: the first that has a secret gives it."""

    def __init__(self, *providers: SecretProvider) -> None:
        self._providers = tuple(map(checked_provider, providers))

    def __repr__(self) -> str:
        return f"ChainSecrets({', '.join(map(repr, self._providers))})"

    async def get(self, name: str) -> Secret | None:
        """Return the first that is found."""
        for provider in self._providers:
            if (found := await provider.get(name)) is not None:
                return found
        return None


def checked_provider(given: SecretProvider) -> SecretProvider:
    """Return it if it can be asked. Raises `BadDefinition`."""
    if not inspect.iscoroutinefunction(getattr(given, "get", None)):
        raise BadDefinition(
            what=f"secrets={type(given).__name__} is no provider of secrets",
            hint='Write hf.App("shop", secrets=hf.EnvSecrets(prefix="SHOP_")).',
        )
    return given


def _secret(found: Given) -> Secret | None:
    if isinstance(found, Secret):
        return found
    return Secret(found) if found else None
