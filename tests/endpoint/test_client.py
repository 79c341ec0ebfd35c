from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, cimpl

from ehkafka.endpoint import Endpoint, causes
from ehkafka.endpoint.client import check_client_version, describe_error, open_consumer, open_producer
from ehkafka.endpoint.properties.known_names import KNOWN, OF_CONFLUENT
from ehkafka.endpoint.properties.layers import consumer_properties, producer_properties
from ehkafka.endpoint.properties.names import ALIASES
from ehkafka.errors import ConfigurationError
from ehkafka.records.client_codes import ClientCode

Hidden = Callable[..., None]
UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
LIBRARY = ctypes.CDLL(cimpl.__file__)
CALLBACKS = {"error_cb", "stats_cb", "throttle_cb", "oauth_cb"}


class _Silent:
    """A logger that keeps librdkafka's own log out of the test output."""

    def log(self, *_arguments: object) -> None:
        pass


def test_client_codes_are_librdkafkas() -> None:
    """Each has the number that the client gives it."""
    ours = {name: code for name, code in vars(ClientCode).items() if name.isupper()}
    assert ours == {name: getattr(KafkaError, f"_{name}") for name in ours}


@pytest.mark.parametrize(
    ("property_", "value", "shown"),
    [
        ("sesion.timeout.ms", 5, "'sesion.timeout.ms'; did you mean session.timeout.ms?"),
        ("enable.autocommit", "x", "did you mean enable.auto.commit?"),
        ("zzz", 5, "'zzz'; see librdkafka's CONFIGURATION.md"),
        ("queued.min.messages", "many", '"queued.min.messages". Correct that property, or leave it out'),
        ("queued.min.messages", 0, 'property "queued.min.messages" value 0 is outside allowed range 1'),
        ("security.protocol", "tls", 'Invalid value "tls" for configuration property "security.protocol"'),
        ("error_cb", 5, "error_cb property as a callable"),
        ("fetch.max.bytes", 1, "`fetch.max.bytes` must be >= `message.max.bytes`"),
    ],
)
@pytest.mark.parametrize("opening", [open_consumer, open_producer])
def test_what_librdkafka_refuses_is_explained(
    opening: Callable[..., Any], property_: str, value: Any, shown: str
) -> None:
    """An unknown property gets a suggestion, an invalid value librdkafka's own words, as our error."""
    if opening is open_producer and "fetch" in property_:
        pytest.skip("a producer does not fetch")
    with pytest.raises(ConfigurationError) as caught:
        opening({**UNREACHABLE, "group.id": "g", property_: value}, logger=_Silent())
    assert shown in str(caught.value)
    assert caught.value.__context__ is None, "librdkafka's own error may repeat a secret"


@pytest.mark.parametrize("group", [None, "", 5])
def test_a_consumer_without_a_group_is_an_error_and_no_crash(group: Any) -> None:
    """The client library would abort the process, so it never gets that far."""
    with pytest.raises(ConfigurationError, match=r"group\.id is missing"):
        open_consumer({**UNREACHABLE, "group.id": group})
    with pytest.raises(ConfigurationError, match=r"group\.id is missing"):
        open_consumer(UNREACHABLE)


def test_the_library_still_aborts_without_a_group() -> None:
    """The guard above exists for this; when it passes without us, the guard may go."""
    code = "import confluent_kafka; confluent_kafka.Consumer({'group.id': ''})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode != 0


def test_a_callback_that_the_engine_needs_cannot_be_given_twice() -> None:
    """The user's would silently never be called."""
    properties = {**UNREACHABLE, "group.id": "g", "error_cb": print}
    with pytest.raises(ConfigurationError, match=r"error_cb cannot be set.*on_error"):
        open_consumer(properties, error_cb=print, stats_cb=print)


def test_our_properties_open_clients_of_every_kind(connection_string: str) -> None:
    """The client takes what the room prepares for a namespace, both assignors and static membership."""
    endpoint = Endpoint.connection_string(
        connection_string, properties={"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    )
    for assignor in ("default", "cooperative-sticky"):
        properties = consumer_properties(endpoint, "g", {}, assignor=assignor, instance_id="a")  # type: ignore[arg-type]
        open_consumer(properties, logger=_Silent()).close()
    producer = open_producer(producer_properties(endpoint, {}), logger=_Silent())
    assert isinstance(producer, confluent_kafka.Producer)


def test_secrets_are_struck_out_of_librdkafkas_words(
    connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """A secret in the place of another value, or as a property's name, is not repeated."""
    password = {"sasl.password": key}
    for wrong in (
        {"security.protocol": connection_string},
        {"security.protocol": key, **password},
        {connection_string: "x"},
        {key: "x", **password},
        {"sasl.mechanisms": connection_string, "security.protocol": "SASL_PLAINTEXT"},
    ):
        with pytest.raises(ConfigurationError) as caught:
            open_consumer({**UNREACHABLE, "group.id": "g", **wrong}, logger=_Silent())
        assert_hidden(key, caught.value)
        assert "***" in str(caught.value)


def test_the_installed_client_is_good_enough() -> None:
    """The versions that the package's own dependency resolves to are accepted."""
    check_client_version()
    check_client_version("2.14.0", "2.14.0-RC1")
    check_client_version("3.0", "10.0.1")


@pytest.mark.parametrize(
    ("client", "library", "shown"),
    [
        ("2.6.0", "2.16.0", "confluent-kafka 2.6.0 cannot talk to Event Hubs"),
        ("2.16.0", "2.6.0", "librdkafka 2.6.0 cannot talk to Event Hubs"),
        ("2.13.9", "2.16.0", "confluent-kafka 2.13.9 is too old"),
        ("2.16.0", "2.2.0", "librdkafka 2.2.0 is too old"),
        ("1.9", "2.16.0", "confluent-kafka 1.9 is too old"),
    ],
)
def test_a_client_that_loses_commits_is_refused(client: str, library: str, shown: str) -> None:
    """Both versions count, and the message says what to install."""
    with pytest.raises(ConfigurationError, match=shown) as caught:
        check_client_version(client, library)
    caught.match("Install confluent-kafka>=2.14.0")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ALL_BROKERS_DOWN", "port 9093"),
        ("_TRANSPORT", "security.protocol"),
        ("_RESOLVE", "private endpoint"),
        ("_AUTHENTICATION", "rotated"),
        ("SASL_AUTHENTICATION_FAILED", "Entra ID"),
        ("TOPIC_AUTHORIZATION_FAILED", "the Basic tier has no Kafka endpoint"),
        ("GROUP_AUTHORIZATION_FAILED", "consumer group"),
        ("UNKNOWN_TOPIC_OR_PART", "the event hub was created"),
        ("_SSL", "ssl.ca.location"),
        ("_TIMED_OUT", "throttling"),
        ("FENCED_INSTANCE_ID", "same group.instance.id"),
        ("_MAX_POLL_EXCEEDED", "max.poll.interval.ms"),
        ("INVALID_SESSION_TIMEOUT", "6000 to 300000"),
        ("OFFSET_METADATA_TOO_LARGE", "1024"),
        ("BROKER_NOT_AVAILABLE", causes.CAUSE_UNKNOWN),
    ],
)
def test_an_error_comes_with_its_usual_cause(name: str, shown: str) -> None:
    """One line with name, text, cause and next step."""
    described = describe_error(KafkaError(getattr(KafkaError, name)))
    assert described.startswith(f"{name} (")
    assert shown in described
    assert "\n" not in described


def test_every_cause_belongs_to_an_error_of_the_client() -> None:
    """A misspelt name would never be found."""
    names = {KafkaError(getattr(KafkaError, name)).name() for name in dir(KafkaError) if name.isupper()}
    assert causes.CAUSES.keys() <= names


def test_a_description_shows_no_key(connection_string: str, key: str, assert_hidden: Hidden) -> None:
    """A broker that repeats the connection string in its answer does not bring it into our log."""
    error = KafkaError(KafkaError._AUTHENTICATION, f"no such\nuser {connection_string}")
    assert_hidden(key, describe_error(error))
    assert "no such user Endpoint=" in describe_error(error)


def test_a_description_steers_no_terminal() -> None:
    """A broker chooses the text of its refusals; a terminal that shows an error must not obey it."""
    shown = describe_error(KafkaError(KafkaError._AUTHENTICATION, "\x1b]0;owned\x07 \u202eno\x9b2J"))
    assert shown.isprintable()
    assert "\\x1b]0;owned\\x07" in shown


def test_every_name_we_know_is_librdkafkas() -> None:
    """A wrong value is refused as invalid, never as an unknown property."""
    ours = {*KNOWN, *ALIASES, *ALIASES.values()} - CALLBACKS - OF_CONFLUENT
    assert [name for name in sorted(ours) if "No such configuration property" in refusal_of(name)] == []


def refusal_of(name: str) -> str:
    """Return what the client says against an empty value; nothing where it takes one."""
    try:
        confluent_kafka.Producer({name: "", "logger": _Silent()})
    except (confluent_kafka.KafkaException, TypeError, ValueError, AttributeError) as error:
        return str(error)
    return ""


def test_every_name_of_librdkafka_is_known() -> None:
    """Else the slip of another name would be suggested in its place, or its value hidden."""
    found = set()
    for kind in ("rd_kafka_conf", "rd_kafka_topic_conf"):
        make, dump = getattr(LIBRARY, f"{kind}_new"), getattr(LIBRARY, f"{kind}_dump")
        make.restype, dump.restype = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
        dump.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        count = ctypes.c_size_t()
        names = dump(make(), ctypes.byref(count))
        found |= {(names[number] or b"").decode() for number in range(0, count.value, 2)}
    assert len(found) > 100
    assert found - KNOWN == set()
