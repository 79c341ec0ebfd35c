from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checks.target import Target
from ehkafka.events import SettingAdvice
from ehkafka.settings import Settings, options_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

BROKER = ehkafka.Endpoint.kafka("kafka.example:9092")
VARIABLES = ("CONNECTION_STRING", "CONNECTION_STRING_FILE", "NAMESPACE", "BOOTSTRAP")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No endpoint in the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(f"EHKAFKA_{name}", raising=False)


def make(**options: Any) -> ehkafka.App:
    """Return an app on a broker that is never reached."""
    return ehkafka.App(**{"group": "home", "start": "earliest", "endpoint": BROKER, **options})


def found(app: ehkafka.App, name: str) -> Any:
    """Return the effective value of that name."""
    (value,) = [value for value in app.configuration() if value.name == name]
    return value


def test_settings_are_laid_over_the_code() -> None:
    """What is configured replaces, what is not stays, and consumer properties add up, aliases too."""
    app = make(drain_s=3, consumer={"fetch.message.max.bytes": 1_000, "client.id": "mine"})
    app.configure(stop_s=5, group="other", consumer={"max.partition.fetch.bytes": 2_000})
    settings = app.settings
    assert (settings.group, settings.drain_s, settings.stop_s) == ("other", 3, 5)
    assert settings.consumer == {"max.partition.fetch.bytes": 2_000, "client.id": "mine"}


@pytest.mark.parametrize("picture", [repr, str, asdict, "{}".format], ids=["repr", "str", "asdict", "format"])
@pytest.mark.parametrize("whole", [lambda app: app.settings, Target.of_app], ids=["settings", "target"])
def test_no_picture_of_the_settings_has_a_consumer_property(
    picture: Callable[[Any], object], whole: Callable[[ehkafka.App], object]
) -> None:
    """A password may be among them."""
    settings = whole(make(consumer={"sasl.password": "hunter2"}))

    assert "hunter2" not in repr(picture(settings))
    assert settings.consumer["sasl.password"] == "hunter2"  # type: ignore[attr-defined]


def test_settings_with_consumer_properties_are_not_pickled() -> None:
    """A pickle is a file or a queue that another program reads; a copy in the process is no such thing."""
    settings = make(consumer={"sasl.password": "hunter2"}).settings

    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(settings)
    assert copy.deepcopy(settings) == copy.copy(settings) == settings


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"dran_s": 1}, r"Unknown setting dran_s: did you mean drain_s\?"),
        ({"stop_s": 5, "drain_s": -1}, "drain_s=-1"),
        ({"group": " "}, "group is missing"),
        ({"start": "middle"}, "start='middle'"),
        ({"endpoint": "localhost:9092"}, "endpoint=str is no Endpoint"),
        ({"consumer": {"x": None}}, "x is None"),
        ({"endpoint": ehkafka.Endpoint.kafka("b:1")}, "given twice, by the app's code and by configure.."),
    ],
)
def test_what_cannot_work_changes_nothing(changes: dict[str, Any], shown: str) -> None:
    """One wrong setting refuses all that came with it."""
    app = make()
    before = (app.settings, app.endpoint)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=shown):
        app.configure(**changes)
    assert (app.settings, app.endpoint) == before


def test_a_running_app_is_not_configured(lab: Any, recorder: Any) -> None:
    """Its threads read the settings that they were started with."""
    app = lab.start(recorder)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="register the settings before the start"):
        app.configure(drain_s=1)
    with pytest.raises(
        ehkafka.errors.ConfigurationError, match="The app is running, so it cannot be started now"
    ):
        app.run()
    app.stop()
    app.configure(drain_s=1)
    assert app.settings.drain_s == 1


def test_an_app_without_an_endpoint_takes_the_environments(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at when it is needed, so that a module can be imported without it."""
    app = lab.app(recorder, endpoint=None)
    assert app.snapshot().endpoint == "not chosen yet"
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", lab.broker.bootstrap)
    lab.produce("a")
    app.start()
    wait_until(lambda: app.snapshot().finished_records == 1)
    app.stop()
    assert found(app, "kind").origin == "environment"


def test_an_app_without_any_endpoint_says_what_to_set() -> None:
    """At the start, or where a handler needs the endpoint's topic."""
    app = make(endpoint=None)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"without topics.*EHKAFKA_NAMESPACE"):
        app.handler()
    app.handler("readings")(print)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"endpoint is missing.*EHKAFKA_BOOTSTRAP"):
        app.start()


def test_an_open_endpoint_may_be_configured() -> None:
    """Once the app has it from outside, another may still take its place."""
    app = make(endpoint=None)
    assert app.takes_endpoint
    app.configure(endpoint=BROKER, origins={"endpoint": "shop.toml: endpoint.bootstrap"})
    assert app.endpoint is BROKER
    assert found(app, "kind").origin == "shop.toml: endpoint.bootstrap"
    assert not make().takes_endpoint


def test_every_value_has_its_origin_and_reason() -> None:
    """Code, configured place, default, engine and endpoint are distinguished."""
    app = make(drain_s=3, consumer={"fetch.min.bytes": 7, "fetch.max.bytes": 8_000_000})
    app.configure(
        stop_s=5,
        consumer={"fetch.max.bytes": 9_000_000},
        origins={"stop_s": "EHKAFKA_STOP_S", "consumer.fetch.max.bytes": "x.toml: consumer.fetch.max.bytes"},
    )
    app.configure(idle_s=1)
    expected = {
        "group": "code",
        "drain_s": "code",
        "stop_s": "EHKAFKA_STOP_S",
        "idle_s": "configure()",
        "connect_s": "default",
        "fetch.min.bytes": "code",
        "fetch.max.bytes": "x.toml: consumer.fetch.max.bytes",
        "enable.auto.commit": "engine",
        "bootstrap.servers": "endpoint",
        "session.timeout.ms": "default",
    }
    assert {name: found(app, name).origin for name in expected} == expected
    assert found(app, "fetch.max.bytes").value == 9_000_000
    assert all(value.reason for value in app.configuration() if value.section == "app")


def test_every_setting_has_a_meaning() -> None:
    """Who adds a setting says what it decides, at first in one line."""
    declared = options_of(Settings)
    assert [one.name for one in declared] == [field.name for field in fields(Settings)]
    assert [one.name for one in declared if not 0 < len(one.meaning) <= 100] == []


def test_values_of_any_type_can_be_shown() -> None:
    """Moments, durations and functions become text; the whole is JSON."""
    app = make(start=datetime(2026, 1, 2, tzinfo=UTC), max_age=timedelta(days=1))
    assert found(app, "start").value == "2026-01-02T00:00:00+00:00"
    assert found(app, "max_age").value == "86400 s"
    app.configure(start=lambda _topic, _partition: "earliest")
    assert found(app, "start").value == "<lambda>"
    assert json.loads(json.dumps([asdict(value) for value in app.configuration()]))


def test_no_secret_is_among_the_values() -> None:
    """Whatever property or setting holds it."""
    key = "Zk9xQ0+vR3t7"
    text = f"Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey={key}"
    endpoint = ehkafka.Endpoint.connection_string(text, properties={"ssl.key.password": key})
    app = make(endpoint=endpoint, consumer={"sasl.oauthbearer.client.secret": key, "client.rack": text})
    assert key not in repr(app.configuration()) + repr(app.settings)
    assert [value.name for value in app.configuration() if value.value == "***"] == [
        "client.rack",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "sasl.username",
        "ssl.key.password",
    ]


def test_advice_is_reported_once_at_the_start(lab: Any, recorder: Any, events: Any) -> None:
    """Permitted but not recommended is a warning with property, value, limit and source."""
    app = lab.app(recorder, consumer={"session.timeout.ms": 1500, "heartbeat.interval.ms": 600})
    assert "Set 500 or less" in found(app, "heartbeat.interval.ms").advice
    app.start()
    app.stop()
    reported = events.of(SettingAdvice)
    assert [(event.property, event.value) for event in reported] == [("heartbeat.interval.ms", "600")]
    assert "Apache Kafka docs" in reported[0].source


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"consumer": {"enable.auto.commit": True}}, "enable.auto.commit=True is refused: ehkafka commits"),
        (
            {"consumer": {"session.timeout.ms": 300_001}},
            "=300001 is refused: Event Hubs allows 6000 to 300000",
        ),
        ({"group": "g" * 257}, "257 characters, but Event Hubs allows 256 .Event Hubs docs, quotas"),
    ],
)
def test_a_start_beyond_a_limit_is_refused(options: dict[str, Any], shown: str) -> None:
    """Before anything is reached; the message names property, value, limit and source."""
    hubs = ehkafka.Endpoint.kafka("ns.servicebus.windows.net:9093", {"security.protocol": "SASL_SSL"})
    app = make(endpoint=hubs, **options)
    app.handler("readings")(print)
    for asking in (app.start, app.configuration):
        with pytest.raises(ehkafka.errors.ConfigurationError, match=shown):
            asking()
