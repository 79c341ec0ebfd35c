from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import AzureError
from azure.identity import ManagedIdentityCredential

from tests.kit.identity_endpoint import IdentityEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

SCOPE = "https://home.servicebus.windows.net/.default"


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityEndpoint]:
    """Run an endpoint where azure-identity finds it."""
    with IdentityEndpoint(life_s=10.0) as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def credential(identity: IdentityEndpoint) -> Iterator[ManagedIdentityCredential]:
    """Return azure-identity's own credential; one that tries once and waits little."""
    with ManagedIdentityCredential(retry_total=0, read_timeout=0.3) as made:
        yield made


def test_azure_identity_gets_a_token_of_the_chosen_life(
    identity: IdentityEndpoint, credential: ManagedIdentityCredential
) -> None:
    """The token, its claims and what azure-identity makes of it tell the same expiry."""
    found = credential.get_token(SCOPE)
    claims = json.loads(base64.urlsafe_b64decode(found.token.split(".")[1] + "=="))
    assert identity.issued == [found.token]
    assert claims["sub"] == "ehkafka"
    assert claims["exp"] == pytest.approx(found.expires_on, abs=1.0)
    assert 9.0 <= found.expires_on - time.time() <= 12.0
    assert identity.requests[0].resource == "https://home.servicebus.windows.net"


@pytest.mark.parametrize("fault", ["fail", "garbage", "hang", "slow"])
def test_each_fault_is_an_error_to_azure_identity(
    identity: IdentityEndpoint, credential: ManagedIdentityCredential, fault: str
) -> None:
    """An error status, an answer that is no token, and no answer in time are all failures."""
    match fault:
        case "fail":
            identity.fail(503)
        case "garbage":
            identity.fail(200, "<html>")
        case "hang":
            identity.hang()
        case "slow":
            identity.issue(10.0, after_s=5.0)
    with pytest.raises((AzureError, ValueError)):
        credential.get_token(SCOPE)
    assert len(identity.requests) == 1
    assert identity.issued == []


def test_identities_may_fare_differently(
    identity: IdentityEndpoint, credential: ManagedIdentityCredential
) -> None:
    """A fault may be one user-assigned identity's alone, until the next change for all."""
    identity.fail(500, client_id="one")
    with ManagedIdentityCredential(client_id="one", retry_total=0) as one, pytest.raises(AzureError):
        one.get_token(SCOPE)
    credential.get_token(SCOPE)
    identity.issue(10.0)
    with ManagedIdentityCredential(client_id="one", retry_total=0) as one:
        one.get_token(SCOPE)
    assert [request.client_id for request in identity.requests] == ["one", None, "one"]
