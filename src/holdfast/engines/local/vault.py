"""The secrets that the steps of this process can have: given to their run, or the app's own.

What a run was given is encrypted and stored if there are keys. Without keys it stays in the memory
of the process that was given it, for the worker there: after a crash it has to be given again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.errors import CannotDecrypt, InvalidValue, StoreError
from holdfast.model.commands import StartRun, SupplySecrets
from holdfast.model.secrets import Sealed, Secret, place_of
from holdfast.model.writes import Notice
from holdfast.ports.keys import Keys
from holdfast.ports.secrets import SecretProvider
from holdfast.ports.store import Store


class Lacking(Exception):
    """A secret is not here. Never a failure of the step that lists it."""

    def __init__(self, name: str, why: str, *, is_certain: bool = True) -> None:
        super().__init__(f"secret {name} {why}")
        self.name, self.is_certain = name, is_certain


class Vault:
    """Finds what steps list. `given` are the secrets of runs that are kept in memory."""

    def __init__(
        self, store: Store, ns: str, provider: SecretProvider | None = None, *, runs: bool = False
    ) -> None:
        self._store, self._ns, self._provider = store, ns, provider
        self._has_worker = runs
        self._listens = False
        self.keys: Keys | None = None
        self.given: dict[str, dict[str, Secret]] = {}

    # --- giving

    def take(self, command: StartRun, secrets: Mapping[str, Secret], *, is_known: bool) -> StartRun:
        """Return the start with what it stores of these. Raises `InvalidValue` if none can."""
        self._must_keep("start", is_known=is_known)
        return command._replace(secrets=self._sealed(command.id, secrets))

    def supplying(self, run: str, secrets: Mapping[str, Secret], id: str, at: int) -> SupplySecrets:
        """Return the command that tells a run of these. Raises `InvalidValue` if none can."""
        self._must_keep("supply_secret")
        return SupplySecrets(
            self._ns, run, tuple(secrets), id, at, secrets=self._sealed(run, secrets)
        )

    def keep(self, run: str, secrets: Mapping[str, Secret]) -> None:
        """Remember what a run was given, until it closes, unless it is stored."""
        if self.keys is None:
            self.given.setdefault(run, {}).update(secrets)
            if not self._listens:
                self._listens = True
                self._store.listen(self._hear, near=True, turns=False)

    def _must_keep(self, where: str, *, is_known: bool = True) -> None:
        if self.keys is not None or (self._has_worker and is_known):
            return
        problem = "this process has no key ring to encrypt them, and no worker to keep them for"
        raise InvalidValue(
            where=where, path="secrets", problem=problem,
            hint="Open the app with keys=hf.KeyRing(...), or set HOLDFAST_KEYS; or open it with "
            "worker=True, and the worker here keeps them in memory.",
        )  # fmt: skip

    def _sealed(self, run: str, secrets: Mapping[str, Secret]) -> tuple[Sealed, ...]:
        if self.keys is None:
            return ()
        plain = {name: secret.reveal().encode() for name, secret in secrets.items()}
        places = {name: place_of(self._ns, run, name) for name in plain}
        return tuple(Sealed(n, *self.keys.seal(plain[n], places[n])) for n in plain)

    def _hear(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            if notice.event is not None and notice.ns == self._ns:
                self.given.pop(notice.run, None)

    # --- finding

    async def fetch(self, run: str, names: Iterable[str]) -> Mapping[str, Secret]:
        """Return the secrets of these names. Raises `Lacking`."""
        listed, given = tuple(names), self.given.get(run, {})
        stored = dict[str, Sealed]()
        if not given.keys() >= set(listed):
            try:
                stored = {each.name: each for each in await self._store.secrets(self._ns, run)}
            except StoreError as error:
                why = f"cannot be read: {error}"
                raise Lacking(listed[0], why, is_certain=False) from error
        return {
            name: given.get(name) or self._opened(run, stored.get(name)) or await self._find(name)
            for name in listed
        }

    def _opened(self, run: str, stored: Sealed | None) -> Secret | None:
        if stored is None:
            return None
        name, key, sealed = stored
        if self.keys is None:
            raise Lacking(name, f"is encrypted with key {key}, and this worker has no key ring")
        try:
            plain = self.keys.unseal(key, sealed, place_of(self._ns, run, name))
        except CannotDecrypt as error:
            raise Lacking(name, f"cannot be opened: {error}") from error
        return Secret(plain.decode())

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
