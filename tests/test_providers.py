"""Where secrets come from."""

from pathlib import Path

import pytest

import holdfast as hf


async def test_the_environment_gives_secrets_by_their_names_in_capitals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_STRIPE_KEY", "sk-live-1")
    monkeypatch.setenv("SHOP_EMPTY", "")
    provider = hf.EnvSecrets(prefix="SHOP_")
    assert await provider.get("stripe-key") == hf.Secret("sk-live-1")
    assert await provider.get("empty") is None
    assert await provider.get("other") is None
    assert repr(provider) == "EnvSecrets(prefix='SHOP_')"


async def test_a_directory_gives_the_text_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "stripe-key").write_text("sk-live-2\n")
    provider = hf.FileSecrets(tmp_path)
    assert await provider.get("stripe-key") == hf.Secret("sk-live-2")
    assert await provider.get("other") is None
    with pytest.raises(hf.InvalidName, match="slash or a leading dot"):
        await provider.get("../stripe-key")


async def test_a_function_gives_texts_secrets_or_nothing() -> None:
    async def later(name: str) -> str | None:
        return {"token": "from-a-vault"}.get(name)

    given: dict[str, str | hf.Secret] = {"a": hf.Secret("secret-a"), "b": "secret-b"}
    assert await hf.CallableSecrets(given.get).get("a") == hf.Secret("secret-a")
    assert await hf.CallableSecrets(given.get).get("b") == hf.Secret("secret-b")
    assert await hf.CallableSecrets(given.get).get("c") is None
    assert await hf.CallableSecrets(later).get("token") == hf.Secret("from-a-vault")
    with pytest.raises(hf.BadDefinition, match="cannot be called"):
        hf.CallableSecrets("token")  # type: ignore[arg-type]


async def test_of_several_providers_the_first_that_has_it_gives_it(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("from-a-file")
    chain = hf.ChainSecrets(hf.CallableSecrets({"a": "from-a-dict"}.get), hf.FileSecrets(tmp_path))
    assert await chain.get("a") == hf.Secret("from-a-dict")
    assert await chain.get("b") == hf.Secret("from-a-file")
    assert await chain.get("c") is None
