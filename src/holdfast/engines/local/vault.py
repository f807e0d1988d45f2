"""The secrets that runs of this process can have: found by the app's provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.model.secrets import Secret
from holdfast.ports.secrets import SecretProvider


class Lacking(Exception):
    """A secret is not here. Never a failure of the step that lists it."""

    def __init__(self, name: str, why: str, *, is_certain: bool = True) -> None:
        super().__init__(f"secret {name} {why}")
        self.name, self.is_certain = name, is_certain


class Vault:
    """Finds what steps list."""

    def __init__(self, provider: SecretProvider | None = None) -> None:
        self._provider = provider

    async def fetch(self, names: Iterable[str]) -> Mapping[str, Secret]:
        """Return the secrets of these names. Raises `Lacking`."""
        return {name: await self._find(name) for name in names}

    async def _find(self, name: str) -> Secret:
        if self._provider is None:
            raise Lacking(name, "is not here, and the app has no provider of secrets")
        try:
            found = await self._provider.get(name)
        except Exception as error:
            why = f"cannot be read: {type(error).__name__}: {error}"
            raise Lacking(name, why, is_certain=False) from error
        if found is None:
            raise Lacking(name, f"is not here, nor in {self._provider!r}")
        return found
