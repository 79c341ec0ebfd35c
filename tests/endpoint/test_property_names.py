"""Which properties are secrets, by librdkafka's names and the Java client's."""

from __future__ import annotations

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.properties.known_names import KNOWN, meant_by
from ehkafka.endpoint.properties.names import in_one_spelling, is_secret, shown
from ehkafka.errors import ConfigurationError

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
    plain = "https://login.example:8443/tenant/oauth2/v2.0/token"
    assert shown(URL, plain) == repr(plain)
    assert is_secret("sasl.password", plain)


def test_few_of_the_known_properties_are_secrets() -> None:
    """A mark that fits too much would hide settings that people look for. The Java client has others."""
    javas = ("SASL.Password", "sasl.jaas.config", "ssl.keystore.key", "ssl.truststore.password")
    assert [name for name in javas if not is_secret(name)] == []
    assert sorted(name for name in KNOWN if is_secret(name)) == [
        "https.ca.pem",
        "oauthbearer_token_refresh_cb",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "ssl_key",
    ]


MISSPELT = [
    ("sasl.pasword", "sasl.password"),
    ("sasl.passwrod", "sasl.password"),
    ("sasl.Password", "sasl.password"),
    ("sasl_password", "sasl.password"),
    ("sasl-password", "sasl.password"),
    ("sasl.usrname", "sasl.username"),
    ("ssl.key.pasword", "ssl.key.password"),
    ("session.timeout.m", "session.timeout.ms"),
    ("boostrap.servers", "bootstrap.servers"),
    ("max.pol.interval.ms", "max.poll.interval.ms"),
]


@pytest.mark.parametrize(("name", "meant"), MISSPELT)
def test_a_misspelt_name_is_refused_and_its_value_hidden(name: str, meant: str) -> None:
    """In every layer of properties, before anything is opened; a secret's value is not repeated."""
    for give in (
        lambda: in_one_spelling({name: "hunter22"}, "App(consumer=…)"),
        lambda: Endpoint.kafka("localhost:9092", {name: "hunter22"}),
    ):
        with pytest.raises(ConfigurationError, match=f"did you mean {meant}") as refused:
            give()
        assert "hunter22" not in str(refused.value)
    if is_secret(meant):
        assert shown(name, "hunter22") == "***"


@pytest.mark.parametrize(
    "name", ["sasl.pwd", "my.secret", "ssl.new.thing", "api-token", "sasl.new.option", "auth.passwd"]
)
def test_an_unknown_name_that_may_be_a_secret_hides_its_value(name: str) -> None:
    """Librdkafka refuses the name; until then it is unknown what the value is."""
    assert shown(name, "hunter22") == "***"


def test_no_known_name_is_taken_for_a_slip() -> None:
    """Whatever it looks like."""
    assert {name: meant for name in KNOWN if (meant := meant_by(name)) is not None} == {}


@pytest.mark.parametrize("name", ["some.new.option", "fetch.new.thing", "x", ""])
def test_a_name_of_its_own_is_left_to_librdkafka(name: str) -> None:
    """A later one may know it."""
    assert meant_by(name) is None
    assert not is_secret(name)
