"""Which properties are secrets, by librdkafka's names and the Java client's."""

from __future__ import annotations

import pytest

from ehkafka.endpoint.property_names import SUGGESTED, is_secret, shown


@pytest.mark.parametrize(
    "name",
    [
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl_key",
        "ssl.keystore.password",
        "ssl.certificate.pem",
        "SASL.Password",
        "sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.truststore.password",
    ],
)
def test_what_holds_a_secret_is_one(name: str) -> None:
    """What librdkafka calls sensitive and is no path, what its OIDC settings hold, and Java's."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.kerberos.keytab",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.ca.location",
        "enable.sasl.oauthbearer.unsecure.jwt",
    ],
)
def test_names_places_and_paths_are_none(name: str) -> None:
    """They may be shown, and travel to executors: what they lead to is read there."""
    assert not is_secret(name)


URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    "value",
    [
        "https://me:pw@login.example/token",
        "https://pw@login.example/token",
        "https://login.example/token?client_secret=pw",
        "HTTPS://login.example/token?sig=pw",
        "https://login.example/token#pw",
        "pw",
        "",
        None,
    ],
)
def test_where_a_token_is_fetched_is_a_secret_where_it_may_hold_one(value: str | None) -> None:
    """With a user, a query, in another form, or when only the property's name is known."""
    assert is_secret(URL, value)
    assert is_secret(URL.upper(), value)
    assert shown(URL, value) == "***"


def test_a_plain_address_of_tokens_is_no_secret() -> None:
    """It may be shown, and travel to executors; another property with such a value is judged by its name."""
    plain = "https://login.example:8443/tenant/oauth2/v2.0/token"
    assert not is_secret(URL, plain)
    assert shown(URL, plain) == repr(plain)
    assert is_secret("sasl.password", plain)


def test_few_of_the_common_properties_are_secrets() -> None:
    """A mark that fits too much would hide settings that people look for."""
    assert [name for name in SUGGESTED if is_secret(name)] == [
        "sasl.oauthbearer.config",
        "sasl.password",
        "sasl.username",
        "ssl.ca.pem",
        "ssl.key.password",
    ]
