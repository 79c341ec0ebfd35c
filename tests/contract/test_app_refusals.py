"""What cannot work is refused before anything starts, by name and with the next step."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from tests.kit.unstolen import unstolen_s


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"consumer": {"enable.auto.commit": True}}, "enable.auto.commit=True.*owns commits"),
        ({"consumer": {"auto.offset.reset": "earliest"}}, r"auto.offset.reset.*App\(start="),
        ({"consumer": {"no.such.property": 1}}, "no.such.property"),
        ({"consumer": {"session.timeout.ms": 5_000, "heartbeat.interval.ms": 4_000}}, "heartbeat.interval"),
        ({"consumer": {"group.id": "other"}}, "group.id"),
    ],
)
def test_unsafe_consumer_properties_are_refused_at_the_start(
    lab: Any, recorder: Any, settings: dict[str, Any], words: str
) -> None:
    """The message names the property and what to do; nothing was started."""
    app = lab.app(recorder, **settings)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words) as caught:
        app.start()
    assert caught.value.exit_code == 2
    assert app.state == "stopped"


def test_a_session_beyond_event_hubs_limits_is_refused_with_limit_and_source() -> None:
    """Property, value, limit and the page it comes from."""
    endpoint = ehkafka.Endpoint.kafka("ns.servicebus.windows.net:9093")
    app = ehkafka.App(group="g", endpoint=endpoint, start="earliest", consumer={"session.timeout.ms": 1_000})
    app.handler("t")(print)
    with pytest.raises(
        ehkafka.errors.ConfigurationError, match=r"session.timeout.ms=1000.*6000.*300000.*docs"
    ):
        app.start()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": ""}, "group is missing"),
        ({"group": None}, "group is missing"),
        ({"start": None}, "start is missing"),
        ({"start": "newest"}, "start='newest'"),
        ({"start": -5}, "start=-5"),
        ({"start": True}, "start=True"),
        ({"endpoint": "localhost:9092"}, "endpoint=str is no Endpoint"),
        ({"comit_interval_s": 1}, "comit_interval_s"),
        ({"commit_interval_s": 0}, "commit_interval_s=0"),
        ({"commit_interval_s": "1"}, "commit_interval_s='1'"),
        ({"commit_every_records": 0}, "commit_every_records=0"),
        ({"commit_idle_s": -1}, "commit_idle_s=-1"),
        ({"backlog_records_max": 0}, "backlog_records_max=0"),
        ({"backlog_records_max": True}, "backlog_records_max=True"),
        ({"backlog_records_max": 10, "consume_records_max": 20}, "consume_records_max=20"),
        ({"drain_s": -1}, "drain_s=-1"),
        ({"stop_s": -0.1}, "stop_s=-0.1"),
        ({"stuck_s": 0}, "stuck_s=0"),
        ({"assignor": "sticky"}, "assignor='sticky'"),
        ({"commit_interval_s": float("nan")}, "commit_interval_s=nan"),
        ({"stop_s": float("inf")}, "stop_s=inf"),
        ({"backlog_records_max": 1.5, "consume_records_max": 1}, r"backlog_records_max=1\.5"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_the_app_is_made(options: dict[str, Any], words: str) -> None:
    """No start, no group, an unknown or impossible setting: refused by name, with no default."""
    good = {"group": "g", "endpoint": ehkafka.Endpoint.kafka("127.0.0.1:1"), "start": "earliest"}
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        ehkafka.App(**{**good, **options})


def test_a_missing_start_has_no_default() -> None:
    """Leaving `start` out is refused too, and the message lists what it may be."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"start is missing.*'earliest', 'latest'"):
        ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"))


def test_an_app_without_handler_is_refused(lab: Any) -> None:
    """There is nothing to subscribe to."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match="no handler"):
        lab.app().start()


def test_a_topic_that_does_not_exist_is_named_with_those_that_do(lab: Any, recorder: Any) -> None:
    """The error lists the broker's topics; nothing was created."""
    app = lab.app(recorder, "reedings")
    with pytest.raises(ehkafka.errors.TopicNotFoundError, match=r"'reedings'.*t, t4, u"):
        app.start()


def test_an_unreachable_broker_is_reported_within_the_connect_time(lab: Any, recorder: Any) -> None:
    """EndpointError after connect_s, with host and port and what the system said to them."""
    app = lab.app(recorder, connect_s=1.0, endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"))
    began_s = unstolen_s()
    with pytest.raises(
        ehkafka.errors.EndpointError,
        match=r"^127\.0\.0\.1:1 could not be reached within 1 s: .* refused .*\. Check the address and",
    ):
        app.start()
    assert unstolen_s() - began_s < 4.0


def test_no_handler_takes_a_topic_twice(lab: Any, recorder: Any) -> None:
    """One handler per topic; the message names both."""
    app = lab.app(recorder, "t", "u")
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"'u' has the handler 'Recorder'"):
        app.handler("u")(print)
