from __future__ import annotations

import base64
import json
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.sink.container import opened
from ehkafka.spark.sink.options import sink_options
from tests.kit.azurite import ACCOUNT, ACCOUNT_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite

# What a user ships with --py-files: a function that makes a credential where it is called.
FACTORY = """
import time
import uuid
from azure.core.credentials import AccessToken
class Credential:
    def get_token(self, *scopes, **options):
        assert scopes == ("https://storage.azure.com/.default",)
        return AccessToken({token!r}, int(time.time()) + 3600)
def make():
    return Credential()
def broken():
    raise RuntimeError("the password is hunter2")
"""


def token() -> str:
    """Return a token for Blob Storage that Azurite takes."""
    now = int(time.time())
    claims = {"iat": now - 60, "nbf": now - 60, "exp": now + 3600, "aud": "https://storage.azure.com"}
    claims["iss"] = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/"
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a module that can be imported."""
    (tmp_path / "my_credentials.py").write_text(FACTORY.format(token=token()))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_credentials"
    sys.modules.pop("my_credentials", None)


def works(options: dict[str, str]) -> None:
    """Stage, commit and read a blob."""
    container = opened(sink_options({**options, "path": "out"}).place)
    container.stage("out/a", "block", b"rows")
    container.commit("out/a", ["block"], "jsonl")
    written = container.read("out/a")
    assert written is not None
    assert written.body == b"rows"
    assert [blob.name for blob in container.list_blobs("out/")] == ["out/a"]


@pytest.mark.broker
def test_a_credential_factory_opens_the_container(factory: str, token_azurite: Azurite) -> None:
    """The function is called in the process that writes; its token goes over TLS."""
    url = token_azurite.create_container(f"c{uuid.uuid4().hex[:12]}")
    works({"containerUrl": url, "credentialFactory": f"{factory}:make"})


@pytest.mark.broker
def test_a_sas_comes_from_a_variable(azurite: Azurite, written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL with its signature is named, never given."""
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas  # noqa: PLC0415

    rights = ContainerSasPermissions(read=True, write=True, create=True, list=True, delete=True)
    name = written.options["container"]
    end = datetime.now(UTC) + timedelta(hours=1)
    sas = generate_container_sas(ACCOUNT, name, account_key=ACCOUNT_KEY, permission=rights, expiry=end)
    monkeypatch.setenv("HOMES_URL", f"{azurite.account_url()}/{name}?{sas}")
    works({"containerUrlEnv": "HOMES_URL"})


def test_a_factory_that_fails_is_named_without_what_it_said(factory: str) -> None:
    """Its error may hold what it read; that it failed, and where, is enough."""
    options = {"containerUrl": "https://shop.blob.core.windows.net/homes", "path": "out"}
    place = sink_options({**options, "credentialFactory": f"{factory}:broken"}).place
    with pytest.raises(
        ConfigurationError, match=r"credentialFactory: the function my_credentials:broken raised"
    ) as failed:
        place.open_client({})
    assert "hunter2" not in str(failed.value)
    place = sink_options({**options, "credentialFactory": "not_there:make"}).place
    with pytest.raises(ConfigurationError, match=r"not_there cannot be imported.*--py-files"):
        place.open_client({})
    place = sink_options({**options, "credentialFactory": "a.b"}).place
    with pytest.raises(ConfigurationError, match=r"'a\.b' does not name a function: give package\.module"):
        place.open_client({})
