from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.client_name import host_name
from ehkafka.endpoint.drop_in import drop_in_properties
from ehkafka.endpoint.properties.layers import consumer_properties, producer_properties
from ehkafka.errors import ConfigurationError
from ehkafka.ranges.client import client_properties

Hidden = Callable[..., None]

PLAIN = Endpoint.kafka("localhost:9092")
HUBS = Endpoint.kafka("ns.servicebus.windows.net:9093")


def consumer(endpoint: Endpoint = PLAIN, group: Any = "home", **overrides: Any) -> dict[str, Any]:
    """Return consumer properties; overrides are written with underscores for dots."""
    return prepared({name.replace("_", "."): value for name, value in overrides.items()}, endpoint, group)


def prepared(overrides: Any, endpoint: Endpoint = PLAIN, group: Any = "home") -> dict[str, Any]:
    """Return consumer properties with the default assignor."""
    return consumer_properties(endpoint, group, overrides, assignor="default", instance_id=None)


def test_an_answer_has_room_for_the_largest_record_that_was_asked_for() -> None:
    """Else librdkafka refuses to start; a value of the user's own stays."""
    assert consumer(message_max_bytes=20_000_000)["fetch.max.bytes"] == 20_000_000
    assert consumer(message_max_bytes="500000")["fetch.max.bytes"] == 4_194_304
    sizes = {"message_max_bytes": 9_000_000, "fetch_max_bytes": 9_500_000}
    assert consumer(**sizes)["fetch.max.bytes"] == 9_500_000


def test_a_consumer_gets_our_defaults() -> None:
    """Commits, offsets, resets and the protocol are the engine's; the rest is what was measured."""
    assert consumer() == {
        "bootstrap.servers": "localhost:9092",
        "group.id": "home",
        "client.id": f"ehkafka-{host_name()}-{os.getpid()}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "group.protocol": "classic",
        "partition.assignment.strategy": "range,roundrobin",
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 3_000,
        "max.poll.interval.ms": 300_000,
        "fetch.queue.backoff.ms": 5,
        "queued.min.messages": 10_000,
        "fetch.max.bytes": 4_194_304,
        "max.partition.fetch.bytes": 393_216,
        "queued.max.messages.kbytes": 65_536,
        "socket.keepalive.enable": True,
        "check.crcs": True,
    }


def test_event_hubs_adds_its_idle_times() -> None:
    """For the service the two ages that Azure limits are set as documented; elsewhere they are not."""
    extra = set(consumer(HUBS)) - set(consumer())
    assert extra == {"metadata.max.age.ms", "connections.max.idle.ms"}
    assert consumer(HUBS)["metadata.max.age.ms"] == consumer(HUBS)["connections.max.idle.ms"] == 180_000


@pytest.mark.parametrize("name", ["metadata.max.age.ms", "topic.metadata.refresh.interval.ms"])
def test_ages_that_librdkafka_cannot_count_are_refused(name: str) -> None:
    """For any broker, and for producers: the client would ask for metadata every second."""
    most = {"metadata.max.age.ms": 2_147_483, "topic.metadata.refresh.interval.ms": 715_827}[name]
    assert prepared({name: str(most)})[name] == str(most)
    for properties in (prepared, partial(producer_properties, PLAIN)):
        with pytest.raises(ConfigurationError, match=rf"{name}=3600000 is refused: .* every second"):
            properties({name: 3_600_000})  # type: ignore[operator]
    both = {"topic.metadata.refresh.interval.ms": 3_600_000, "metadata.max.age.ms": 2_147_483}
    assert prepared(both).items() >= both.items()


def test_membership_options_reach_the_client() -> None:
    """Assignor and instance id become librdkafka's properties."""
    result = consumer_properties(PLAIN, "home", {}, assignor="cooperative-sticky", instance_id="pod-1")
    assert result["partition.assignment.strategy"] == "cooperative-sticky"
    assert result["group.instance.id"] == "pod-1"
    assert prepared({"group.instance.id": "pod-2"})["group.instance.id"] == "pod-2"


def test_numbers_given_as_text_are_numbers() -> None:
    """Environment variables and files give text; the checks and the result see numbers."""
    result = consumer(HUBS, session_timeout_ms=" 6000 ", max_poll_interval_ms="7000", metadata_max_age_ms=1e5)
    assert result["session.timeout.ms"] == 6_000
    assert result["max.poll.interval.ms"] == 7_000
    assert result["metadata.max.age.ms"] == 100_000
    with pytest.raises(ConfigurationError, match=r"session.timeout.ms=5999 is refused"):
        prepared({"session.timeout.ms": "5999"}, HUBS)


@pytest.mark.parametrize(
    "equal",
    [
        {"enable.auto.commit": "false"},
        {"enable.auto.commit": 0},
        {"auto.commit.enable": "False"},
        {"enable.auto.offset.store": False},
        {"auto.offset.reset": "Error"},
        {"enable.partition.eof": "false"},
        {"group.id": "home"},
        {"group.protocol": "CLASSIC"},
        {"partition.assignment.strategy": "range, roundrobin"},
        {"bootstrap.servers": "localhost:9092"},
    ],
)
def test_what_equals_ours_is_accepted(equal: dict[str, Any]) -> None:
    """A configuration that already says what we need moves over unchanged, and ours is what is used."""
    assert prepared(equal) == prepared({})


ANYWHERE = [
    ({"enable.auto.commit": True}, "enable.auto.commit=True is refused: ehkafka commits itself"),
    ({"enable.auto.commit": "true"}, "enable.auto.commit='true' is refused"),
    ({"auto.commit.enable": "t"}, "enable.auto.commit='t' is refused"),
    ({"enable.auto.offset.store": 1}, "enable.auto.offset.store=1 is refused: ehkafka stores offsets itself"),
    ({"auto.offset.reset": "earliest"}, "auto.offset.reset='earliest' is refused.*App\\(start=…\\)"),
    ({"enable.partition.eof": True}, "enable.partition.eof=True is refused"),
    ({"group.id": "other"}, "group.id='other' is refused.*App\\(group=…\\)"),
    ({"group.id": "Home"}, "group.id='Home' is refused"),
    ({"group.id": "ho me"}, "group.id='ho me' is refused"),
    ({"group.protocol": "consumer"}, "group.protocol='consumer' is refused"),
    ({"partition.assignment.strategy": "cooperative-sticky"}, "App\\(assignor=…\\)"),
    ({"on_commit": print}, "on_commit is refused.*on_assigned, on_revoked and on_lost"),
    ({"rebalance_cb": print}, "rebalance_cb is refused"),
    ({"on_revoke": print}, "on_revoke is refused"),
    ({"group.instance.id": "a b"}, "group.instance.id='a b' is refused: brokers allow 1 to 249"),
    ({"session.timeout.ms": "soon"}, "session.timeout.ms='soon' is refused: it is not a whole number"),
    ({"session.timeout.ms": True}, "session.timeout.ms=True is refused: it is not a whole number"),
    ({"session.timeout.ms": 1.5}, "session.timeout.ms=1.5 is refused: it is not a whole number"),
    ({"session.timeout.ms": None}, "session.timeout.ms is None"),
    ({"max.poll.interval.ms": 30_000}, "max.poll.interval.ms=30000 is refused.*session.timeout.ms=30000"),
    (
        {"max.poll.interval.ms": "9000", "session.timeout.ms": "9000"},
        "max.poll.interval.ms=9000 is refused.*Raise max.poll.interval.ms, or lower session.timeout.ms",
    ),
    (
        {"heartbeat.interval.ms": 15_001},
        "heartbeat.interval.ms=15001 is refused.*Set heartbeat.interval.ms to 10000 or less",
    ),
    ({"default.topic.config": {"auto.offset.reset": "latest"}}, "default.topic.config is not supported"),
]

ON_EVENT_HUBS = [
    (
        {"session.timeout.ms": 5_999},
        "session.timeout.ms=5999 is refused: Event Hubs allows 6000 to 300000 ms",
    ),
    ({"session.timeout.ms": "300001"}, "session.timeout.ms=300001 is refused"),
    ({"metadata.max.age.ms": 240_000}, "metadata.max.age.ms=240000 is refused: Event Hubs needs 1 to 239999"),
    ({"connections.max.idle.ms": "240000"}, "connections.max.idle.ms=240000 is refused.*idle for 240 s"),
    ({"connections.max.idle.ms": 0}, "connections.max.idle.ms=0 is refused"),
]


@pytest.mark.parametrize(("overrides", "text"), ANYWHERE)
@pytest.mark.parametrize("by_endpoint", [False, True])
def test_what_would_break_a_promise_is_refused(overrides: Any, text: str, by_endpoint: bool) -> None:
    """The refusal names property, value, owner or limit, and the fix, wherever the property was written."""
    with pytest.raises(ConfigurationError, match=text):
        _ = prepared({}, Endpoint.kafka("localhost:9092", overrides)) if by_endpoint else prepared(overrides)


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_the_app_cannot_bend_where_the_endpoint_points(name: str) -> None:
    """One place says which broker it is, or the endpoint's name in logs would be a lie."""
    with pytest.raises(
        ConfigurationError, match=r"bootstrap.servers='other:9092' is refused: the endpoint sets another"
    ):
        prepared({name: "other:9092"})


def test_what_the_endpoint_says_too_may_be_repeated(connection_string: str, key: str) -> None:
    """A whole configuration of Event Hubs may be given with its endpoint; a key in other letters may not."""
    endpoint = Endpoint.connection_string(connection_string)
    reported = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "plain",
        "sasl.password": connection_string,
    }
    assert prepared(reported, endpoint)["sasl.password"] == connection_string
    with pytest.raises(ConfigurationError, match=r"sasl.password=\*\*\* is refused"):
        prepared({"sasl.password": connection_string.replace(key, key.swapcase())}, endpoint)


def test_an_app_may_add_the_security_that_its_endpoint_leaves_open() -> None:
    """Only what the endpoint says is its own; a plain one says nothing about authentication."""
    security = {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
    assert security.items() <= prepared(security).items()


@pytest.mark.parametrize(("overrides", "text"), ON_EVENT_HUBS)
def test_a_setting_beyond_a_documented_limit_is_refused_for_event_hubs_only(
    overrides: Any, text: str
) -> None:
    """The message names property, value, limit and source; on other brokers it is the user's choice."""
    with pytest.raises(ConfigurationError, match=text) as caught:
        prepared(overrides, HUBS)
    caught.match("Event Hubs docs, Apache Kafka client configurations")
    name, value = next(iter(overrides.items()))
    assert int(prepared(overrides)[name]) == int(value)


@pytest.mark.parametrize(
    "overrides",
    [
        {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 3_000},
        {"session.timeout.ms": 300_000, "max.poll.interval.ms": 300_001},
        {"metadata.max.age.ms": 239_999, "connections.max.idle.ms": 1},
    ],
)
def test_the_limits_themselves_are_permitted(overrides: dict[str, int]) -> None:
    """The last permitted value passes."""
    assert overrides.items() <= prepared(overrides, HUBS).items()


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (None, "the group is missing.*App\\(group=…\\)"),
        ("", "the group is missing"),
        ("  ", "the group is missing"),
        (5, "the group is missing"),
        (" home", "begins or ends with a space"),
        ("ho\0me", "control character"),
        ("caf\udce9", "it is not UTF-8"),
        ("ä" * 16_384, "it has 32768 bytes, but Kafka's protocol allows 32767"),
    ],
)
def test_a_group_that_no_broker_takes_is_refused(group: Any, text: str) -> None:
    """A missing group would otherwise end the whole process inside the client library."""
    with pytest.raises(ConfigurationError, match=text):
        consumer(group=group)


def test_the_services_group_length_holds_for_the_service() -> None:
    """256 characters pass, 257 do not, and Apache Kafka takes both."""
    assert consumer(HUBS, "g" * 256)["group.id"] == consumer(PLAIN, "g" * 256)["group.id"] == "g" * 256
    assert consumer(PLAIN, "g" * 257)["group.id"] == "g" * 257
    with pytest.raises(ConfigurationError, match=r"257 characters, but Event Hubs allows 256 .*docs, quotas"):
        consumer(HUBS, "g" * 257)


@pytest.mark.parametrize("instance_id", ["", "a/b", "x" * 250, 7])
def test_an_instance_id_that_a_broker_refuses_is_refused(instance_id: Any) -> None:
    """Brokers answer such an id with a bare 'invalid request'."""
    with pytest.raises(ConfigurationError, match=r"group\.instance\.id"):
        consumer_properties(PLAIN, "home", {}, assignor="default", instance_id=instance_id)


def test_two_words_about_membership_are_refused() -> None:
    """An instance id of the app and another one among the properties contradict one another."""
    with pytest.raises(ConfigurationError, match=r"group.instance.id='b' is refused.*App\(instance_id=…\)"):
        consumer_properties(PLAIN, "home", {"group.instance.id": "b"}, assignor="default", instance_id="a")
    with pytest.raises(
        ConfigurationError, match=r"assignor='sticky' is refused.*default, cooperative-sticky"
    ):
        consumer_properties(PLAIN, "home", {}, assignor="sticky", instance_id=None)  # type: ignore[arg-type]


def test_a_producer_is_idempotent_and_waits_for_all() -> None:
    """The defaults of a producer, with the service's time-out on Event Hubs."""
    assert producer_properties(PLAIN, {"linger.ms": 2}) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": f"ehkafka-{host_name()}-{os.getpid()}",
        "socket.keepalive.enable": True,
        "linger.ms": 2,
        "enable.idempotence": True,
        "acks": "all",
    }
    assert producer_properties(HUBS, {})["request.timeout.ms"] == 60_000


@pytest.mark.parametrize("acks", ["all", "-1", -1, "ALL"])
@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_every_spelling_of_all_acknowledgements_is_ours(name: str, acks: Any) -> None:
    """The number that librdkafka has for it is accepted as well, under both names."""
    assert producer_properties(PLAIN, {name: acks}) == producer_properties(PLAIN, {})


@pytest.mark.parametrize(
    ("overrides", "text", "anywhere"),
    [
        ({"acks": 1}, "acks=1 is refused", True),
        ({"request.required.acks": "0"}, "acks='0' is refused", True),
        ({"enable.idempotence": "false"}, "enable.idempotence='false' is refused", True),
        ({"transactional.id": "t"}, "transactional.id='t' is refused", True),
        ({"bootstrap.servers": "other"}, "the endpoint sets another value", True),
        (
            {"compression.type": "snappy"},
            "compression.type='snappy' is refused: Event Hubs supports only none",
            False,
        ),
        ({"compression.codec": "lz4"}, "compression.type='lz4' is refused", False),
        ({"compression.type": "ZSTD"}, "compression.type='zstd' is refused", False),
        (
            {"request.timeout.ms": "20000"},
            "request.timeout.ms=20000 is refused: Event Hubs needs more",
            False,
        ),
        ({"metadata.max.age.ms": 240_000}, "metadata.max.age.ms=240000 is refused", False),
    ],
)
def test_what_a_producer_must_not_have_is_refused(overrides: Any, text: str, anywhere: bool) -> None:
    """Owned properties are refused anywhere, the service's limits on Event Hubs alone."""
    with pytest.raises(ConfigurationError, match=text):
        producer_properties(HUBS, overrides)
    if anywhere:
        with pytest.raises(ConfigurationError, match=text):
            producer_properties(PLAIN, overrides)
    else:
        assert producer_properties(PLAIN, overrides)


def test_no_refusal_shows_a_secret(connection_string: str, key: str, assert_hidden: Hidden) -> None:
    """A secret in the place of any refused value stays hidden, wherever it was put."""
    endpoint = Endpoint.connection_string(connection_string)
    attempts = [
        lambda: prepared({"sasl.password": key}, endpoint),
        lambda: prepared({"sasl.username": key}, endpoint),
        lambda: prepared({"bootstrap.servers": connection_string}, endpoint),
        lambda: prepared({"group.id": connection_string}, endpoint),
        lambda: prepared({"session.timeout.ms": connection_string}, endpoint),
        lambda: prepared({}, endpoint, connection_string),
        lambda: prepared({}, endpoint, f" {connection_string}"),
        lambda: producer_properties(endpoint, {"compression.type": connection_string}),
        lambda: prepared({"session.timeout.ms": f"SharedAccessKey={key}"}, endpoint),
        lambda: prepared({}, endpoint, f" SharedAccessKey={key}"),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationError) as caught:
            attempt()
        assert_hidden(key, caught.value)


def test_every_client_names_its_process_unless_the_program_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and process, in characters that Kafka takes for names, so that brokers tell them apart."""
    monkeypatch.setattr("socket.gethostname", lambda: "wéb 01\n" + "x" * 300)
    monkeypatch.setattr("os.getpid", lambda: 17)
    name = "ehkafka-wb01" + "x" * 96 + "-17"
    assert consumer()["client.id"] == name
    assert producer_properties(PLAIN, {})["client.id"] == name
    assert drop_in_properties(HUBS, {"group.id": "g"})["client.id"].startswith(name)
    of_spark = client_properties(PLAIN, None, "ehkafka-spark")
    assert of_spark["client.id"] == name.replace("ehkafka-", "ehkafka-spark-", 1)
    assert "client.id" not in drop_in_properties(PLAIN, {"group.id": "g"})
    for mine in (
        consumer(client_id="mine"),
        drop_in_properties(HUBS, {"group.id": "g", "client.id": "mine"}),
    ):
        assert mine["client.id"] == "mine"
