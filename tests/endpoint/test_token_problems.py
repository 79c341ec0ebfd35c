from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.identity import CredentialUnavailableError
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.endpoint.entra.token import UnusableTokenError
from ehkafka.endpoint.entra.token_problem import explain

if TYPE_CHECKING:
    from collections.abc import Callable

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL2hvbWUifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
UNAVAILABLE = CredentialUnavailableError
# DefaultAzureCredential tells of each way on a line of its own.
EVERY_WAY = "DefaultAzureCredential failed to retrieve a token.\nAttempted credentials:\n\tOne: no\n\tTwo: no"


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (UNAVAILABLE("App Service managed identity configuration not found."), ["IDENTITY_ENDPOINT", "5xx"]),
        (UNAVAILABLE("EnvironmentCredential authentication unavailable."), ["AZURE_CLIENT_SECRET"]),
        (UNAVAILABLE("Azure CLI not found on path"), ["az login"]),
        (UNAVAILABLE("?"), ["choose another one"]),
        (
            ValueError("WorkloadIdentityCredential authentication unavailable."),
            ["AZURE_FEDERATED_TOKEN_FILE"],
        ),
        (ClientAuthenticationError(EVERY_WAY), ["by name", "managed_identity", "One: no Two: no"]),
        (ClientAuthenticationError("AADSTS7000222: expired"), ["AADSTS7000222", "Event Hubs Data Receiver"]),
        (ServiceRequestError("refused"), ["DNS, proxy and firewall"]),
        (json.JSONDecodeError("Expecting value", "", 0), ["not JSON"]),
        (ModuleNotFoundError("No module named 'azure'"), ["install azure-identity"]),
        (UnusableTokenError("the credential returned an empty token"), ["empty token", "identity endpoint"]),
        (RuntimeError("mine"), ["RuntimeError (mine)", "correct the credential"]),
        (SystemExit(3), ["SystemExit"]),
    ],
)
def test_an_error_comes_with_its_class_its_text_and_the_usual_fix(
    error: BaseException, parts: list[str]
) -> None:
    """The line says what failed and what to do next."""
    shown = explain(error)
    assert type(error).__name__ in shown
    for part in parts:
        assert part in shown


def test_tokens_and_secrets_are_struck_out(
    monkeypatch: pytest.MonkeyPatch, key: str, assert_hidden: Callable[..., None]
) -> None:
    """An error that quotes a token, a key or a secret of the environment is shown without it."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "pass-word")
    text = f'Unexpected response "{{"access_token": "{JWT}"}}" to {key} with pass-word, as known: opaque'
    shown = explain(RuntimeError(text), known=["opaque"])
    assert_hidden(JWT, shown)
    assert_hidden(key, shown)
    assert "pass-word" not in shown
    assert "opaque" not in shown
    assert explain(
        RuntimeError("see https://aka.ms/azsdk/python/identity/managedidentitycredential/help")
    ).count("https://aka.ms/azsdk/python/identity/managedidentitycredential/help")


def test_the_password_of_an_address_is_struck_out() -> None:
    """An error that quotes a proxy's address with its login is shown without that."""
    shown = explain(RuntimeError("cannot connect to proxy http://me:hunter2@proxy.local:8080/x, aborting"))
    assert "hunter2" not in shown
    assert "http://***@proxy.local:8080/x" in shown


class UnreadableError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_error_without_a_readable_text_is_explained_too() -> None:
    """Nothing that a credential raises keeps the explanation from being made."""
    assert "UnreadableError (its text cannot be read, RuntimeError)" in explain(UnreadableError())


@given(st.text(max_size=3000))
def test_an_explanation_is_one_short_printable_line(text: str) -> None:
    """An error's text neither floods nor forges the log."""
    shown = explain(RuntimeError(text))
    assert shown.isprintable()
    assert len(shown) < 450
