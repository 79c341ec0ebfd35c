"""`ehkafka.testing.run`: an app of one's own in a test, on an embedded broker and unchanged."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError, EndpointError, HandlerFailedError
from ehkafka.testing import run


@dataclasses.dataclass
class Reading:
    """What a door says."""

    door: str


def _app(**options: Any) -> ehkafka.App:
    return ehkafka.App(group="g", **{"start": "earliest", **options})


def test_a_handler_is_tested_in_a_few_lines() -> None:
    """What was sent is handled and committed after `wait`, with key, value and headers as text."""
    app, seen = _app(), []

    @app.handler("readings")
    def watch(record: ehkafka.Record) -> None:
        seen.append(record.json()["door"])

    with run(app) as t:
        t.send("readings", {"door": "open"}, key="home-1", headers={"source": "kitchen"})
        t.wait()
        assert seen == ["open"]
        (handled,) = t.handled
        assert (handled.key, handled.json(), handled.headers) == (
            "home-1",
            {"door": "open"},
            {"source": "kitchen"},
        )
        assert (handled.handler, handled.attempt) == ("watch", 1)
        assert t.broker.committed("g", "readings")[handled.partition] == 1


def test_every_kind_of_value_arrives_as_it_was_sent() -> None:
    """Text, bytes, JSON and a tombstone; partition and timestamp are the sender's."""
    app, seen = _app(), []

    @app.handler("t", order_by=ehkafka.by_partition)
    def keep(record: ehkafka.Record) -> None:
        seen.append((record.value(), record.partition(), record.timestamp()[1]))

    with run(app, topics={"t": 7}) as t:
        for value in ("text", b"\xff", [1, {"a": None}], {"n": 1}, None):
            t.send("t", value, partition=6, timestamp=1_700_000_000_000)
        t.wait()
    assert [one[0] for one in seen] == [b"text", b"\xff", b'[1,{"a":null}]', b'{"n":1}', None]
    assert {one[1:] for one in seen} == {(6, 1_700_000_000_000)}
    assert [one.value for one in t.handled] == ["text", b"\xff", '[1,{"a":null}]', '{"n":1}', None]


def test_dead_letters_are_read_with_their_reason() -> None:
    """A letter is the record with its own headers, and says why."""
    app = _app()

    @app.handler("readings", on_failure=ehkafka.DeadLetter("readings.dead"))
    def watch(record: ehkafka.Record) -> None:
        raise ValueError("no door")

    with run(app) as t:
        t.send("readings", {"n": 1}, key="k", headers={"own": "x"})
        t.wait()
    (letter,) = t.letters("readings.dead")  # also after the end
    assert (letter.key, letter.json(), dict(letter.headers)) == ("k", {"n": 1}, {"own": "x"})
    assert letter.reason == "ValueError: no door"
    assert (letter.handler, letter.attempts) == ("watch", 1)
    assert not t.handled


def test_what_ends_the_app_is_raised_by_wait_with_the_handlers_own_error() -> None:
    """At once, and only once: a test that expects it passes."""
    app, own = _app(), ValueError("bad reading")

    @app.handler("readings")
    def watch(record: ehkafka.Record) -> None:
        raise own

    with run(app) as t:
        t.send("readings", "x", key="k")
        with pytest.raises(HandlerFailedError) as raised:
            t.wait()
    assert raised.value.__cause__ is own
    assert own.__traceback__ is not None


@pytest.mark.parametrize("own", [None, AssertionError("not what I expected")], ids=["passes", "fails"])
def test_what_ends_the_app_fails_a_test_that_does_not_wait(own: AssertionError | None) -> None:
    """The end of the block raises it. A test that fails keeps its own error, and both are seen."""
    app, failed = _app(), threading.Event()

    @app.handler("readings")
    def watch(record: ehkafka.Record) -> None:
        failed.set()
        raise ValueError("bad reading")

    def test() -> None:
        with run(app) as t:
            t.send("readings", "x")
            assert failed.wait(30)
            if own is not None:
                raise own

    with pytest.raises(AssertionError if own else HandlerFailedError) as raised:
        test()
    assert raised.value is own or own is None
    assert any("bad reading" in text for text in (str(raised.value), *getattr(own, "__notes__", ())))


def test_a_wait_in_vain_names_each_key_and_what_it_waits_for() -> None:
    """The handler blocks for one key, another one is held."""
    app, gate = _app(), threading.Event()

    @app.handler("readings", on_failure=ehkafka.Hold())
    def watch(record: ehkafka.Record) -> None:
        if record.key() == b"held":
            raise ValueError("no door")
        gate.wait(30)

    with run(app) as t:
        t.send("readings", "x", key="slow", partition=0)
        t.send("readings", "x", key="held", partition=1)
        with pytest.raises(TimeoutError) as raised:
            t.wait(timeout_s=1.0)
        gate.set()
    text = str(raised.value)
    assert "key 'slow' of handler watch at readings[0]@0: " in text
    assert "key 'held' of handler watch at readings[1]@0: " in text
    assert "its last error: ValueError: no door" in text
    assert "readings[0]: committed up to 0 of 1" in text


def test_the_app_is_as_it_was_and_may_run_again() -> None:
    """Endpoint, settings and state are the app's own; a second run begins from nothing."""
    elsewhere = ehkafka.Endpoint.kafka("kafka.example:9093")
    app = _app(
        endpoint=elsewhere,
        start="latest",
        commit_interval_s=9.0,
        consumer={"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"},
    )
    before = app.settings

    @app.handler("readings", start="latest")
    def watch(record: ehkafka.Record) -> None: ...

    for _ in range(2):
        with run(app) as t:
            assert app.endpoint is not elsewhere
            t.send("readings", "x")
            t.wait()
        assert len(t.handled) == 1
        assert app.endpoint is elsewhere
        assert app.settings is before
        assert app.state == "new"
    app.handler("more")(watch)  # as for an app that never ran


def test_a_typed_handler_gets_what_was_sent_as_the_same_type() -> None:
    """A value of the type is sent as it is; one that does not fit is a dead letter, with its field."""
    app, seen = _app(), []

    @app.handler("readings", start="latest", on_failure=ehkafka.DeadLetter("dead"))
    def watch(reading: Reading) -> None:
        seen.append(reading)

    with run(app) as t:
        t.send("readings", Reading("open"), key="k")
        t.send("readings", {"door": 5}, key="k")
        t.wait()
        assert seen == [Reading("open")]
        assert "door" in t.letters("dead")[0].reason


def test_several_handlers_of_which_one_feeds_the_other() -> None:
    """`wait` waits for what handlers send to each other, and `by` and `of` tell them apart."""
    app = _app()

    @app.handler("a")
    def first(record: ehkafka.Record) -> None:
        t.broker.produce("b", [(None, record.value() * 2)])

    @app.handler("b")
    def second(record: ehkafka.Record) -> None: ...

    with run(app) as t:
        t.send("a", "x")
        t.wait()
    assert [one.value for one in t.handled.by("second")] == ["xx"] == [one.value for one in t.handled.of("b")]
    assert [one.value for one in t.handled.by("first")] == ["x"]


def test_what_the_apps_own_producer_sends_is_seen_in_the_test_and_behind_it() -> None:
    """Its topics are made as needed, and the last messages are waited for."""
    app = _app()
    app.handler("a")(lambda record: app.producer.send("audit", {"seen": record.offset()}) and None)
    app.on_stop(lambda: app.producer.send("end", b"bye") and None)
    with run(app) as t:
        t.send("a", "x")
        t.wait()
        assert [one.json() for one in t.outputs("audit")] == [{"seen": 0}]
    assert [one.value for one in t.outputs("end")] == ["bye"]


def test_a_topic_that_no_handler_takes_is_not_waited_for() -> None:
    """It is there to be read."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app) as t:
        t.send("elsewhere", {"n": 1}, key="k")
        t.wait()
        assert [(one.key, one.json()) for one in t.outputs("elsewhere")] == [("k", {"n": 1})]
        with pytest.raises(EndpointError, match="no topic unknown"):
            t.outputs("unknown")
    with pytest.raises(EndpointError, match="inside of the block"):
        t.outputs("unknown")


def test_a_topic_that_a_test_deletes_is_missed_only_by_who_asks_for_it() -> None:
    """The end of the block passes."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app) as t:
        t.send("a", "x", partition=0)
        t.send("b", "x")
        t.wait()
        t.broker.delete_records("a", 0, 1)
        with pytest.raises(EndpointError, match=r"a\[0\]@0 was handled"):
            _ = t.handled
        t.broker.delete_topic("b")
    with pytest.raises(EndpointError, match="b was not read"):
        t.outputs("b")


def test_nothing_is_served_unless_it_is_asked_for() -> None:
    """An address that is in use is no matter then."""
    app = _app(http="127.0.0.1:0")
    app.handler("a")(lambda record: None)
    with run(app) as t:
        assert app.snapshot().counters.get("HttpServing", 0) == 0
    with run(app, http=True) as t:
        t.wait()
        assert app.snapshot().counters["HttpServing"] == 1


def test_settings_may_be_others_in_a_test() -> None:
    """For one run."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app, backlog_records_max=2_000):
        assert app.settings.backlog_records_max == 2_000
    assert app.settings.backlog_records_max == 50_000
    with pytest.raises(ConfigurationError, match="backlog_record"), run(app, backlog_records=1):
        pass
