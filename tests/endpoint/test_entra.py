from __future__ import annotations

import copy
import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.properties.layers import consumer_properties, producer_properties
from ehkafka.errors import ConfigurationError, EndpointError
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "eyJhbGciOiJub25lIn0.c2VjcmV0LXNlY3JldC1zZWNyZXQ.c2lnbmF0dXJl"
HOST = "home.servicebus.windows.net"


@dataclass
class Answer:
    """What a credential returns; a repr would show the token, as azure-identity's does."""

    token: Any
    expires_on: Any


class Credential:
    """A user's own credential."""

    def __init__(self, life_s: float = 3600.0) -> None:
        self.scopes: list[tuple[str, ...]] = []
        self.closed = False
        self.life_s = life_s

    def get_token(self, *scopes: str) -> Answer:
        """Give a token."""
        self.scopes.append(scopes)
        return Answer(SECRET, int(time.time() + self.life_s))

    def close(self) -> None:
        """Note it."""
        self.closed = True


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityEndpoint]:
    """Run a managed-identity endpoint where azure-identity looks for one."""
    with IdentityEndpoint() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("IDENTITY_SERVER_THUMBPRINT", raising=False)
        yield running


def ask(endpoint: Endpoint) -> tuple[str, float]:
    """Ask for a token as librdkafka does."""
    return endpoint.client_properties()["oauth_cb"]("")  # type: ignore[no-any-return]


def test_a_client_gets_what_event_hubs_wants() -> None:
    """TLS, OAUTHBEARER, the namespace's address and the defaults of Event Hubs; nothing is asked yet."""
    credential = Credential()
    endpoint = Endpoint.entra("home", credential)
    found = consumer_properties(endpoint, "g", {}, assignor="default", instance_id=None)
    assert found["bootstrap.servers"] == f"{HOST}:9093"
    assert (found["security.protocol"], found["sasl.mechanisms"]) == ("SASL_SSL", "OAUTHBEARER")
    assert found["metadata.max.age.ms"] == 180_000
    assert (endpoint.kind, endpoint.name, endpoint.default_topic) == ("event-hubs", HOST, None)
    assert credential.scopes == []


@pytest.mark.parametrize("host", [HOST, "home.servicebus.chinacloudapi.cn"])
def test_the_token_is_asked_for_the_namespace_wherever_the_client_connects_to(host: str) -> None:
    """Behind a private endpoint the token is still the namespace's."""
    credential = Credential()
    endpoint = Endpoint.entra(host, credential, properties={"bootstrap.servers": "10.0.0.4:9093"})
    endpoint.tokens.sign_in()
    assert credential.scopes == [(f"https://{host}/.default",)]
    assert endpoint.client_properties()["bootstrap.servers"] == "10.0.0.4:9093"
    assert ask(endpoint)[0] == SECRET


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "unencrypted"),
        ({"security.protocol": "PLAINTEXT", "bootstrap.servers": "127.0.0.1:1"}, "unencrypted"),
        ({"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": "127.0.0.1:1,b:1"}, "unencrypted"),
        ({"sasl.password": SECRET}, r"sasl\.password"),
        ({"sasl.mechanism": "PLAIN"}, r"sasl\.mechanisms"),
        ({"sasl.oauthbearer.config": SECRET}, r"sasl\.oauthbearer\.config"),
        ({"oauth_cb": lambda _: (SECRET, 0.0)}, "oauth_cb"),
    ],
)
def test_properties_cannot_bend_the_credential(
    properties: dict[str, Any], text: str, assert_hidden: Callable[..., None]
) -> None:
    """What would send the token in the clear, or be another credential, is refused."""
    with pytest.raises(ConfigurationError, match=text) as refused:
        Endpoint.entra("home", Credential(), properties=properties)
    assert_hidden(SECRET, refused.value)


def test_on_this_machine_a_token_may_go_unencrypted() -> None:
    """A local broker or tunnel needs no certificate."""
    local = {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": "localhost:9092,[::1]:9092"}
    assert Endpoint.entra("home", Credential(), properties=local).client_properties()


@pytest.mark.parametrize("name", ["oauth_cb", "sasl.oauthbearer.method", "sasl.mechanisms"])
def test_an_app_cannot_bring_another_credential(name: str) -> None:
    """The app's own properties cannot replace the endpoint's credential."""
    endpoint = Endpoint.entra("home", Credential())
    value: Any = (lambda _: None) if name == "oauth_cb" else "oidc"
    with pytest.raises(ConfigurationError, match=name):
        producer_properties(endpoint, {name: value})


class AsyncCredential:
    """Has the shape of azure.identity.aio."""

    async def get_token(self, *scopes: str) -> None:
        """Give no token."""


@pytest.mark.parametrize(
    ("credential", "client_id", "text"),
    [
        (AsyncCredential(), None, r"azure\.identity\.aio"),
        (object(), None, r"no method get_token\(scope\)"),
        (Credential, None, r"no method get_token\(scope\)"),
        (SECRET, None, "unknown name: use one of default"),
        ("cli", "an-id", "client_id works only with"),
        (Credential(), "an-id", "client_id has no effect"),
        ("managed_identity", "", "client_id must be an ID"),
    ],
)
def test_what_is_no_credential_is_refused_with_the_next_step(
    credential: Any, client_id: str | None, text: str, assert_hidden: Callable[..., None]
) -> None:
    """Mistakes with the credential are reported when the endpoint is made, without its text."""
    with pytest.raises(ConfigurationError, match=text) as refused:
        Endpoint.entra("home", credential, client_id=client_id)
    assert_hidden(SECRET, refused.value)


def test_managed_identity_is_azure_identitys_own(identity: IdentityEndpoint) -> None:
    """The word managed_identity asks this machine's identity endpoint, for the user-assigned identity."""
    endpoint = Endpoint.entra("home", "managed_identity", client_id="my-id")
    try:
        endpoint.tokens.sign_in()
        assert ask(endpoint)[0] == identity.issued[0]
    finally:
        endpoint.close()
    (request,) = identity.requests
    assert (request.resource, request.client_id) == (f"https://{HOST}", "my-id")


def test_without_a_credential_azure_identitys_default_decides(
    identity: IdentityEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No credential means DefaultAzureCredential, which finds a managed identity."""
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    endpoint = Endpoint.entra("home")
    try:
        endpoint.tokens.sign_in()
    finally:
        endpoint.close()
    assert len(identity.issued) == 1


@pytest.mark.parametrize(
    ("word", "text"),
    [("service_principal", "AZURE_TENANT_ID"), ("workload_identity", "AZURE_FEDERATED_TOKEN_FILE")],
)
def test_a_credential_without_its_environment_says_what_to_set(
    word: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of azure-identity comes with the usual fix."""
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    endpoint = Endpoint.entra("home", word)
    with pytest.raises(EndpointError, match=text):
        endpoint.tokens.sign_in()
    endpoint.close()


def test_only_a_credential_that_we_built_is_closed(identity: IdentityEndpoint) -> None:
    """The user's credential stays open; ours is closed and built anew when it is needed again."""
    mine = Credential()
    with Endpoint.entra("home", mine) as endpoint:
        endpoint.tokens.sign_in()
    assert not mine.closed
    ours = Endpoint.entra("home", "managed_identity")
    credential = ours._entra._credential
    credential.fetch()
    credential._built.close()
    built = credential._built = Credential()
    ours.close()
    assert built.closed
    credential.fetch()
    assert credential._built is not built
    ours.close()


def test_an_endpoint_shows_no_token_and_is_not_pickled(assert_hidden: Callable[..., None]) -> None:
    """Neither the endpoint nor what it is made of shows the token, and a pickle is refused."""
    endpoint = Endpoint.entra("home", Credential())
    endpoint.tokens.sign_in()
    ask(endpoint)
    parts = map(repr, [endpoint._entra, endpoint._entra._credential, endpoint.tokens._token])
    assert_hidden(SECRET, endpoint, endpoint.tokens, endpoint.client_properties(), *parts)
    assert copy.deepcopy(endpoint) is endpoint
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(endpoint)


def test_a_client_is_not_opened_without_a_token() -> None:
    """A credential that fails is one clear error at once, not librdkafka's after ten seconds."""
    credential = Credential(life_s=-100.0)
    endpoint = Endpoint.entra("home", credential)
    began_s = unstolen_s()
    with pytest.raises(EndpointError, match=r"no Entra ID token.*expired 10. s ago"):
        open_producer(producer_properties(endpoint, {}))
    assert unstolen_s() - began_s < 5.0
    assert len(credential.scopes) == 1
