"""Which properties are secrets, by librdkafka's names and the Java client's."""

from __future__ import annotations

import pytest

from ehkafka.endpoint.property_names import SUGGESTED, is_secret


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
        "sasl.oauthbearer.token.endpoint.url",
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


def test_few_of_the_common_properties_are_secrets() -> None:
    """A mark that fits too much would hide settings that people look for."""
    assert [name for name in SUGGESTED if is_secret(name)] == [
        "sasl.oauthbearer.config",
        "sasl.password",
        "sasl.username",
        "ssl.ca.pem",
        "ssl.key.password",
    ]
