"""How executors find the broker of an app's endpoint: by a name of its secret, never by the secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.group.reach import ADVICE_FOR_COMMAND, reach_options
from ehkafka.spark.source.options import options_from

if TYPE_CHECKING:
    from pathlib import Path

KEY = "c2VjcmV0LWtleS1vZi10ZXN0cw=="
STRING = f"Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=listen;SharedAccessKey={KEY}"


def _checked(options: dict[str, str]) -> dict[str, str]:
    """Return the options, taken by the source as they are and without the key."""
    options_from({**options, "subscribe": "t"})
    assert KEY not in str(options)
    return options


def test_a_variable_that_holds_the_connection_string_is_named() -> None:
    """A literal connection string is found in the environment by what it says, spelling aside."""
    endpoint = ehkafka.Endpoint.connection_string(STRING)
    environ = {"PATH": "/bin", "BROKEN": "SharedAccessKey=", "EVENT_HUBS": f' "{STRING};" '}
    assert _checked(reach_options(endpoint, {}, environ)) == {"connectionStringEnv": "EVENT_HUBS"}


def test_a_literal_connection_string_is_refused_without_repeating_it() -> None:
    """What cannot be named is refused with the options that can, and without the key."""
    endpoint = ehkafka.Endpoint.connection_string(STRING)
    with pytest.raises(ConfigurationError, match=r"connectionStringEnv.*endpointFactory") as refused:
        reach_options(endpoint, {}, {"OTHER": STRING.replace("c2", "d3")})
    assert KEY not in str(refused.value)


def test_a_file_is_named(tmp_path: Path) -> None:
    """A connection string's file goes by its path."""
    file = tmp_path / "eh"
    file.write_text(STRING)
    assert _checked(reach_options(ehkafka.Endpoint.connection_string(file), {}, {})) == {
        "connectionStringFile": str(file)
    }


def test_entra_is_named_by_namespace_and_credential() -> None:
    """A credential chosen by name goes by its name; an object cannot, and the refusal says what can."""
    endpoint = ehkafka.Endpoint.entra(
        "home", "managed_identity", client_id="me", properties={"ssl.ca.location": "/ca.pem"}
    )
    assert _checked(reach_options(endpoint, {}, {})) == {
        "namespace": "home.servicebus.windows.net",
        "credential": "managed_identity",
        "clientId": "me",
        "kafka.ssl.ca.location": "/ca.pem",
    }

    class Own:
        def get_token(self, *_scopes: str) -> Any:
            return None

    with pytest.raises(ConfigurationError, match=r"credential object.*credentialFactory"):
        reach_options(ehkafka.Endpoint.entra("home", Own()), {}, {})


def test_plain_kafka_and_the_embedded_broker_go_by_address() -> None:
    """Properties without a secret go along; one with a secret is refused by its name."""
    endpoint = ehkafka.Endpoint.kafka(
        "one:9092,two:9092", {"client.rack": "r", "enable.ssl.certificate.verification": False}
    )
    assert _checked(reach_options(endpoint, {}, {})) == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.client.rack": "r",
        "kafka.enable.ssl.certificate.verification": "false",
    }
    with pytest.raises(ConfigurationError, match=r"sasl\.password is a secret.*endpointFactory") as refused:
        reach_options(ehkafka.Endpoint.kafka("one:9092", {"sasl.password": KEY}), {}, {})
    assert KEY not in str(refused.value)
    with ehkafka.Endpoint.embedded({"t": 1}) as embedded:
        options = _checked(reach_options(embedded, {}, {}))
        assert options == {"kafka.bootstrap.servers": embedded.client_properties()["bootstrap.servers"]}


def test_properties_of_the_apps_consumer_go_along(lab: Any) -> None:
    """What App(consumer=…) adds counts on executors too, but for membership; a secret is refused by name."""
    endpoint = ehkafka.Endpoint.kafka("one:9092")
    consumer = {"ssl.ca.location": "/ca.pem", "session.timeout.ms": 6000}
    assert _checked(reach_options(endpoint, {}, {}, consumer)) == {
        "kafka.bootstrap.servers": "one:9092",
        "kafka.ssl.ca.location": "/ca.pem",
    }
    with pytest.raises(ConfigurationError, match=r"ssl\.key\.password is a secret"):
        reach_options(endpoint, {}, {}, {"ssl.key.password": KEY})
    app = lab.make_app()
    app.handler("t")(print)
    with pytest.raises(ConfigurationError, match="startingOffsets cannot be set"):
        app.run_on_spark(None, source_options={"startingOffsets": "earliest"})


def test_a_way_that_was_given_counts() -> None:
    """source_options that name the broker go before the endpoint's own way, whatever that is."""
    endpoint = ehkafka.Endpoint.connection_string(STRING)
    assert reach_options(endpoint, {"endpointfactory": "shop:endpoint"}, {}) == {}


def test_the_command_line_hears_what_it_can_do() -> None:
    """The advice is what the app itself can be given, and the command's own option."""
    literal = ehkafka.Endpoint.connection_string(STRING)
    called = ehkafka.Endpoint.connection_string(lambda: STRING)
    for endpoint, why in ((literal, "as text"), (called, r"from a callable .*lambda")):
        with pytest.raises(ConfigurationError, match=rf"{why}.*Endpoint\.from_env\(\)") as refused:
            reach_options(endpoint, {}, {}, advice=ADVICE_FOR_COMMAND)
        assert "source_options" not in str(refused.value)
        assert "--source-option endpointFactory=" in str(refused.value)
        assert KEY not in str(refused.value)
