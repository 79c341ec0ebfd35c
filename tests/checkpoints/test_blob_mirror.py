from __future__ import annotations

import base64
import copy
import json
import pickle
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential

import ehkafka
from ehkafka.checkpoints.stores.store import StoreForbiddenError
from tests.kit.azurite import ACCOUNT, ACCOUNT_KEY

if TYPE_CHECKING:
    from tests.kit.azurite import Azurite

URL = "https://shop.blob.core.windows.net/checkpoints"
KEY = "c2VjcmV0c2VjcmV0"
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={KEY};EndpointSuffix=core.windows.net"
)
NAME = "ns/hub/group/checkpoint/0"


def works(mirror: ehkafka.BlobMirror) -> None:
    """Write and read a blob."""
    store = mirror.open_store()
    try:
        there = store.read(NAME)
        version = store.write(NAME, metadata={}, body=b"1", expected=there.version if there else None)
        found = store.read(NAME)
        assert found is not None
        assert found.version == version
    finally:
        store.close()


def sas(container: str) -> str:
    """Return a SAS for a container."""
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas  # noqa: PLC0415

    return generate_container_sas(
        ACCOUNT,
        container,
        account_key=ACCOUNT_KEY,
        permission=ContainerSasPermissions(read=True, write=True, create=True, list=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


def test_a_connection_string_opens_the_container(azurite: Azurite, container: str, tmp_path: Path) -> None:
    """As text, from a file, and from a callable."""
    text = azurite.connection_string()
    path = tmp_path / "storage"
    path.write_text(f"{text}\n")
    for value in (text, path, lambda: text):
        works(ehkafka.BlobMirror.connection_string(value, container))


def test_a_sas_opens_the_container(azurite: Azurite, container: str) -> None:
    """In the URL, or as azure.core's object."""
    url = f"{azurite.account_url()}/{container}"
    works(ehkafka.BlobMirror(f"{url}?{sas(container)}"))
    works(ehkafka.BlobMirror(url, AzureSasCredential(sas(container))))


def test_a_rotated_key_is_read_again_when_the_old_one_is_refused(
    azurite: Azurite, container: str, tmp_path: Path
) -> None:
    """The write after the refused one has the new key."""
    path = tmp_path / "storage"
    path.write_text(azurite.connection_string().replace("Eby8", "Xby8"))
    store = ehkafka.BlobMirror.connection_string(path, container).open_store()
    with pytest.raises(StoreForbiddenError):
        store.read(NAME)
    path.write_text(azurite.connection_string())
    assert store.read(NAME) is None
    store.close()


class Credential:
    """A credential of the user's own: a token that Azurite takes."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **_options: Any) -> AccessToken:
        """Return a token for Blob Storage."""
        self.scopes += scopes
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 3600,
        }
        parts = ({"alg": "HS256", "typ": "JWT"}, claims)
        encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts]
        return AccessToken(".".join([*encoded, "c2lnbmF0dXJl"]), now + 3600)


def test_a_token_credential_opens_the_container_over_tls(token_azurite: Azurite) -> None:
    """Any object of azure-identity's kind; it is asked for Blob Storage, and closed by who made it."""
    credential = Credential()
    works(ehkafka.BlobMirror(token_azurite.create_container("tokens"), credential))
    assert set(credential.scopes) == {"https://storage.azure.com/.default"}


@pytest.mark.parametrize(
    "environ",
    [
        {"CONTAINER_URL": f"{URL}?sig={KEY}", "INTERVAL_S": "30"},
        {"CONTAINER_URL": URL, "CREDENTIAL": "managed_identity", "CLIENT_ID": "abc", "INTERVAL_S": "30"},
        {"CONTAINER": "checkpoints", "CONNECTION_STRING": CONNECTION_STRING, "INTERVAL_S": "30"},
    ],
)
def test_the_environment_names_the_container(environ: dict[str, str]) -> None:
    """A URL with a SAS, one with a credential, or a connection string; an empty variable counts as unset."""
    variables = {f"EHKAFKA_MIRROR_{name}": value for name, value in environ.items()}
    mirror = ehkafka.BlobMirror.from_env({**variables, "EHKAFKA_MIRROR_NAMESPACE": ""})
    assert (mirror.name, mirror.interval_s, mirror.namespace) == (URL, 30.0, None)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CONTAINER": "checkpoints"},
        {"CONTAINER_URL": URL, "CONNECTION_STRING": CONNECTION_STRING},
        {"CONTAINER": "checkpoints", "CONNECTION_STRING": CONNECTION_STRING, "CREDENTIAL": "cli"},
        {"CONTAINER_URL": URL, "INTERVAL_S": "often"},
    ],
)
def test_an_environment_that_says_too_little_or_too_much_is_refused(environ: dict[str, str]) -> None:
    """By the names of the variables, never with a value."""
    variables = {f"EHKAFKA_MIRROR_{name}": value for name, value in environ.items()}
    with pytest.raises(ehkafka.errors.ConfigurationError, match="EHKAFKA_MIRROR_") as found:
        ehkafka.BlobMirror.from_env(variables)
    assert KEY not in str(found.value)


# A SAS may be in it, or a connection string in its place.
URLS: list[tuple[Any, str]] = [
    ("", "empty"),
    (None, "not text"),
    (CONNECTION_STRING, "https://"),
    ("https://shop.blob.core.windows.net", "one container"),
    (f"{URL}/readings", "one container"),
    (f"http://shop.blob.core.windows.net/checkpoints?sig={KEY}", "unencrypted"),
    (f"https://user:{KEY}@shop.blob.core.windows.net/checkpoints", "https://"),
    ("https://shop.blob.core.windows.net/Checkpoints", "name of the container"),
    ("https://shop.blob.core.windows.net/a", "name of the container"),
    (f"https://[{KEY}/checkpoints", "not a URL"),
]


WRONG = [
    lambda: ehkafka.BlobMirror(f"{URL}?sig={KEY}", "default"),
    lambda: ehkafka.BlobMirror(URL, KEY),
    lambda: ehkafka.BlobMirror(URL, object()),
    lambda: ehkafka.BlobMirror("http://127.0.0.1:10000/devstoreaccount1/checkpoints"),
    lambda: ehkafka.BlobMirror(URL, interval_s=0.0),
    lambda: ehkafka.BlobMirror(URL, interval_s=True),
    lambda: ehkafka.BlobMirror.connection_string(f"Endpoint=sb://x/;SharedAccessKey={KEY}", "checkpoints"),
    lambda: ehkafka.BlobMirror.connection_string(CONNECTION_STRING.replace("https", "http"), "checkpoints"),
    lambda: ehkafka.BlobMirror.connection_string(CONNECTION_STRING, KEY),
    lambda: ehkafka.BlobMirror.connection_string(f"AccountKey={KEY}", "checkpoints"),
    lambda: ehkafka.BlobMirror.connection_string(17, "checkpoints"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((partial(ehkafka.BlobMirror, url), words) for url, words in URLS),
        *((make, "BlobMirror") for make in WRONG),
    ],
)
def test_what_cannot_work_is_refused_without_a_secret(make: Any, words: str) -> None:
    """No URL of a container; two credentials, a token over http, no interval, another service's string."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words) as found:
        make()
    assert KEY not in str(found.value)


@pytest.mark.parametrize("value", [Path("/nowhere/storage"), lambda: 1 / 0, lambda: 7])
def test_a_source_that_fails_is_refused_without_its_own_words(value: Any) -> None:
    """What a callable raises may hold the secret."""
    with pytest.raises(StoreForbiddenError, match="connection string"):
        ehkafka.BlobMirror.connection_string(value, "checkpoints")


@pytest.mark.parametrize(
    "mirror",
    [
        ehkafka.BlobMirror(f"{URL}?sv=2024-01-01&sig={KEY}"),
        ehkafka.BlobMirror.connection_string(CONNECTION_STRING, "checkpoints"),
    ],
)
def test_a_blob_mirror_shows_and_pickles_no_secret(mirror: ehkafka.BlobMirror) -> None:
    """It says where it is."""
    assert repr(mirror) == str(mirror) == f"<BlobMirror {URL}>"
    assert KEY not in str(vars(mirror))
    assert copy.deepcopy(mirror) is copy.copy(mirror) is mirror
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(mirror)
    assert KEY not in repr(mirror.open_store())
