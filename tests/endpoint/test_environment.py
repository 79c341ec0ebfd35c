from __future__ import annotations

import string
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.environment import KEYS, WAYS, property_name
from ehkafka.endpoint.properties.known_names import KNOWN, OF_CONFLUENT
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

Hidden = Callable[..., None]


def named(*keys: str) -> list[str]:
    """Return the variables of these settings."""
    return [f"EHKAFKA_{key.upper()}" for key in keys]


def test_a_connection_string_in_the_environment(connection_string: str) -> None:
    """The string's own namespace and topic are the endpoint's."""
    endpoint = Endpoint.from_env({"EHKAFKA_CONNECTION_STRING": f"{connection_string};EntityPath=readings"})
    assert (endpoint.kind, endpoint.name) == ("event-hubs", "unit-test.servicebus.windows.net")
    assert endpoint.default_topic == "readings"


def test_a_connection_string_in_a_file(connection_string: str, tmp_path: Path) -> None:
    """The file is read when the endpoint is made, and is where a rotated key is looked for."""
    file = tmp_path / "connection"
    file.write_text(connection_string + "\n")
    endpoint = Endpoint.from_env({"EHKAFKA_CONNECTION_STRING_FILE": str(file)})
    assert endpoint.client_properties()["sasl.password"] == connection_string
    assert endpoint.credential is not None


def test_a_namespace_means_entra() -> None:
    """Namespace, credential, client id and properties are `Endpoint.entra`'s; no token is asked for yet."""
    variables = {
        "EHKAFKA_NAMESPACE": "home",
        "EHKAFKA_CREDENTIAL": "managed_identity",
        "EHKAFKA_CLIENT_ID": "1234",
        "EHKAFKA_PROPERTY_BOOTSTRAP_SERVERS": "10.0.0.4:9093",
    }
    with Endpoint.from_env(variables) as endpoint:
        assert endpoint.name == "home.servicebus.windows.net"
        assert endpoint._entra is not None
        assert endpoint._entra.chosen_credential == ("managed_identity", "1234")
        assert endpoint.client_properties()["bootstrap.servers"] == "10.0.0.4:9093"
    with Endpoint.from_env({"EHKAFKA_NAMESPACE": "home"}) as endpoint:
        assert endpoint.credential_name == "default"


def test_a_bootstrap_address_means_any_kafka() -> None:
    """Properties come along under librdkafka's names."""
    endpoint = Endpoint.from_env(
        {
            "EHKAFKA_BOOTSTRAP": "kafka.example:9092",
            "EHKAFKA_PROPERTY_SSL_CA_LOCATION": "/ca.pem",
            "EHKAFKA_PROPERTY_LOG_LEVEL": "3",
            "EHKAFKA_PROPERTY_CLIENT_ID": "",
            "EHKAFKA_GROUP": "home",
            "OTHER": "1",
        }
    )
    assert endpoint.client_properties() == {
        "bootstrap.servers": "kafka.example:9092",
        "ssl.ca.location": "/ca.pem",
        "log_level": "3",
    }


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument the variables of the process are read."""
    for name in named(*KEYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", "a.example:1")
    assert Endpoint.from_env().name == "a.example"


def test_another_prefix_is_another_endpoint() -> None:
    """Two endpoints of one process have a prefix each, also in what their errors say."""
    environ = {"EHKAFKA_BOOTSTRAP": "a.example:1", "DEAD_BOOTSTRAP": "b.example:1", "DEAD_NAMESPACE": "home"}
    assert Endpoint.from_env(environ).name == "a.example"
    with pytest.raises(ConfigurationError, match="DEAD_NAMESPACE and DEAD_BOOTSTRAP"):
        Endpoint.from_env(environ, prefix="DEAD_")


@pytest.mark.parametrize("environ", [{}, {"EHKAFKA_BOOTSTRAP": ""}, {"EHKAFKA_PROPERTY_CLIENT_ID": "x"}])
def test_none_set_is_reported_with_all_names(environ: dict[str, str]) -> None:
    """The message lists every variable that would do."""
    with pytest.raises(ConfigurationError) as caught:
        Endpoint.from_env(environ)
    assert [name for name in named(*WAYS) if name not in str(caught.value)] == []
    assert ("EHKAFKA_BOOTSTRAP is there, but empty" in str(caught.value)) == ("EHKAFKA_BOOTSTRAP" in environ)


def test_an_error_of_what_is_set_speaks_of_nothing_else() -> None:
    """An empty variable next to the wrong one is not what has to be corrected."""
    with pytest.raises(ConfigurationError) as caught:
        Endpoint.from_env({"EHKAFKA_BOOTSTRAP": "no host", "EHKAFKA_NAMESPACE": ""})
    assert "EHKAFKA_NAMESPACE" not in str(caught.value)


@pytest.mark.parametrize("name", ["EHKAFKA_CONECTION_STRING", "EHKAKFA_CONNECTION_STRING"])
def test_a_misspelt_variable_is_pointed_at(name: str) -> None:
    """Otherwise one looks for long at a variable that is there."""
    with pytest.raises(ConfigurationError, match=f"{name}; did you mean EHKAFKA_CONNECTION_STRING"):
        Endpoint.from_env({name: "x", "HOME": "/"})


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_two_set_are_reported_by_name(first: str, second: str) -> None:
    """Which of them is meant is not for us to guess."""
    if first == second:
        return
    with pytest.raises(ConfigurationError) as caught:
        Endpoint.from_env(dict.fromkeys(named(first, second), "some-value"))
    message = str(caught.value)
    assert {name for name in named(*WAYS) if f" {name}:" in message or f" {name} " in message} == {
        *named(first, second)
    }
    assert "some-value" not in message


@pytest.mark.parametrize("key", ["credential", "client_id"])
def test_what_belongs_to_another_way_is_refused(key: str) -> None:
    """A credential with a bootstrap address would be ignored without a word."""
    with pytest.raises(ConfigurationError, match=f"EHKAFKA_{key.upper()} works only with EHKAFKA_NAMESPACE"):
        Endpoint.from_env({"EHKAFKA_BOOTSTRAP": "a:1", f"EHKAFKA_{key.upper()}": "x"})


def test_a_wrong_value_is_reported_by_its_variable(tmp_path: Path) -> None:
    """The factory's own message stands behind the name of what has to be corrected."""
    cases = {
        "EHKAFKA_BOOTSTRAP": "no host",
        "EHKAFKA_CONNECTION_STRING": "Endpoint=x",
        "EHKAFKA_CONNECTION_STRING_FILE": str(tmp_path / "none"),
        "EHKAFKA_NAMESPACE": "a b",
    }
    for name, value in cases.items():
        with pytest.raises(ConfigurationError, match=f"^{name}: "):
            Endpoint.from_env({name: value})


def test_plain_settings_of_any_source_are_reported_by_their_users_names() -> None:
    """Who reads a file says how a setting is called there."""
    settings = {"bootstrap": "a:1", "namespace": "b"}
    with pytest.raises(ConfigurationError, match=r"by \[endpoint\] namespace and \[endpoint\] bootstrap"):
        Endpoint.from_settings(settings, named="[endpoint] {}".format)
    with pytest.raises(ConfigurationError, match="no setting bootstap; did you mean bootstrap"):
        Endpoint.from_settings({"bootstap": "a:1"})


def test_every_property_can_be_written_as_a_variable() -> None:
    """Underscores stand for dots; the one property with an underscore is known."""
    names = {name for name in KNOWN - OF_CONFLUENT if "_" not in name or name == "log_level"}
    assert {name for name in names if property_name(name.upper().replace(".", "_")) != name} == set()


@given(
    environ=st.dictionaries(
        st.sampled_from([*named(*KEYS), "EHKAFKA_PROPERTY_SSL_CA_LOCATION", "EHKAFKA_PROPERTY_X"]),
        st.sampled_from(
            ["", "KEY", "Endpoint=KEY", "ns:KEY", "KEY.example:9093", "SharedAccessKey=KEY;", "\0KEY"]
        ),
    )
)
def test_no_error_shows_any_value(environ: dict[str, str]) -> None:
    """Any variable may hold a secret by mistake: names are shown, values never."""
    # Letters that no message and no name of ours has in a row.
    key = "qjxzwvkq7" + string.digits
    filled = {name: value.replace("KEY", key) for name, value in environ.items()}
    try:
        Endpoint.from_env(filled).close()
    except ConfigurationError as error:
        shown = f"{error!r} {error.__cause__!r} {error.__context__!r}"
        # A path and a host that passed for one are what their own factories may name.
        reported = {"EHKAFKA_CONNECTION_STRING_FILE", "EHKAFKA_NAMESPACE", "EHKAFKA_CREDENTIAL"}
        if not reported & {name for name, value in filled.items() if value}:
            assert key not in shown


def test_a_connection_string_in_any_variable_is_never_shown(
    connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """People paste the string where it does not belong."""
    names = [*named(*KEYS), "EHKAFKA_PROPERTY_SASL_PASSWORD", "EHKAFKA_PROPERTY_BOOTSTRAP_SERVERS"]
    for name in names:
        for more in ({}, {"EHKAFKA_NAMESPACE": "home"}, {"EHKAFKA_BOOTSTRAP": "a:1"}):
            try:
                endpoint = Endpoint.from_env({**more, name: connection_string})
            except ConfigurationError as error:
                assert_hidden(key, error)
            else:
                assert_hidden(key, endpoint)
                endpoint.close()
