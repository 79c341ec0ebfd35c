"""Metrics by OpenTelemetry: the same numbers as Prometheus is shown, by the names of its conventions."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.attributes import messaging_attributes

from ehkafka.errors import ConfigurationError
from ehkafka.metrics import Collector
from ehkafka.otel import Metrics
from ehkafka.telemetry.catalogue import ALL, Metric
from ehkafka.telemetry.otel import conventions
from ehkafka.telemetry.otel.meter import instrument_of
from tests.kit.metrics import Shown
from tests.kit.pages import ROOT
from tests.kit.pictures import MEMBER, ONE, SHOWN, Source

# What the API's specification allows.
NAME = re.compile(r"[a-z][a-z0-9_./-]{0,254}")
ATTRIBUTE = {
    "group": messaging_attributes.MESSAGING_CONSUMER_GROUP_NAME,
    "topic": messaging_attributes.MESSAGING_DESTINATION_NAME,
    "partition": messaging_attributes.MESSAGING_DESTINATION_PARTITION_ID,
    "le": "ehkafka.up_to",
}
ROW = re.compile(r"^\| `(ehkafka_\w+)` \| \*(ehkafka\.[\w.]+)\* \| `([^`]+)` \|$", re.MULTILINE)


class Observed:
    """A provider whose reader a test asks."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader])

    def all(self) -> dict[str, Any]:
        """Collect, and return the metrics by name."""
        data: Any = self.reader.get_metrics_data()
        scopes = (
            [] if data is None else [scope for one in data.resource_metrics for scope in one.scope_metrics]
        )
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def value(self, name: str, **attributes: str) -> float | None:
        """Return the sum of the points of this name with these attributes; None where there is none."""
        metric = self.all().get(name)
        points = [] if metric is None else metric.data.data_points
        found = [one.value for one in points if attributes.items() <= dict(one.attributes).items()]
        return sum(found) if found else None


@pytest.fixture
def observed() -> Observed:
    """Return one without instruments."""
    return Observed()


def named(labels: dict[str, str]) -> dict[str, str]:
    """Return labels of Prometheus as attributes."""
    return {ATTRIBUTE.get(name, f"ehkafka.{name}"): value for name, value in labels.items()}


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_each_number_is_what_prometheus_is_shown(metric: Metric[Any], observed: Observed) -> None:
    """With the same labels as attributes, and the help text as its description."""
    Metrics(Source(replace(ONE, members=(MEMBER,))), meter_provider=observed.provider)
    value, labels = SHOWN[metric.name]
    instrument = instrument_of(metric)
    name = f"{instrument.name}.calls" if metric.kind == "histogram" else instrument.name
    if metric.kind == "histogram":
        value, labels = 4, labels | {"le": "0.5"}  # each call is counted once, and not in all buckets above
    attributes = named(labels | {"group": "g", "member": "2"})
    found = observed.all()[name]
    [point] = [one for one in found.data.data_points if attributes.items() <= dict(one.attributes).items()]
    assert (point.value, found.description) == (value, metric.meaning)
    assert dict(point.attributes) == attributes | {messaging_attributes.MESSAGING_SYSTEM: "kafka"}
    assert (type(found.data).__name__ == "Sum") == (metric.kind != "gauge")
    assert getattr(found.data, "is_monotonic", metric.kind != "gauge") is (metric.kind != "gauge")


def test_nothing_is_shown_that_prometheus_is_not(observed: Observed) -> None:
    """Each metric of the catalogue is one instrument, the histogram two: a new one needs nothing here."""
    Metrics(Source(replace(ONE, members=(MEMBER,))), meter_provider=observed.provider)
    found = observed.all()
    assert len(found) == len(ALL) + sum(metric.kind == "histogram" for metric in ALL)
    shown = Shown(Collector(Source(replace(ONE, members=(MEMBER,)))))
    for metric in ALL:
        if metric.kind != "histogram":
            points = found[instrument_of(metric).name].data.data_points
            assert len(points) == len(shown.series(metric.name))
    assert found["ehkafka.handler.time"].data.data_points[0].value == 2.5


def test_names_and_units_follow_the_conventions(observed: Observed) -> None:
    """No name has a unit or `total`; what is counted stands in braces; all differ."""
    Metrics(Source(replace(ONE, members=(MEMBER,))), meter_provider=observed.provider)
    found = observed.all()
    for name, metric in found.items():
        assert NAME.fullmatch(name)
        assert name.startswith("ehkafka.")
        assert not {"total", "seconds", "bytes"} & set(re.split(r"[._]", name))
        assert metric.unit in {"s", "By", "1"} or re.fullmatch(r"\{[a-z]+\}", metric.unit)
    assert len({instrument_of(metric).name for metric in ALL}) == len(ALL)


def test_the_page_names_them_as_they_are() -> None:
    """Each kind of name has an example."""
    rows = ROW.findall((ROOT / "docs/reference/metrics.md").read_text())
    assert len(rows) > 5
    by_name = {metric.name: instrument_of(metric) for metric in ALL}
    for name, instrument, unit in rows:
        assert by_name[name] == (instrument, unit)


class Counting(Source):
    """Counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__(ONE)
        self.snapshots = 0

    def snapshot(self) -> Any:
        """Count."""
        self.snapshots += 1
        return super().snapshot()


def test_one_picture_is_enough_for_a_collection(observed: Observed) -> None:
    """All instruments show the same moment, and the next collection another one, however soon it comes."""
    source = Counting()
    Metrics(source, meter_provider=observed.provider)
    assert source.snapshots == 0
    for number in (1, 2, 3):
        observed.all()
        assert source.snapshots == number


def test_two_readers_have_all_numbers_each() -> None:
    """Also at the same time."""
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    Metrics(Counting(), meter_provider=MeterProvider(metric_readers=readers))
    threads = [threading.Thread(target=reader.collect) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reader in readers:
        data: Any = reader.get_metrics_data()
        names = {metric.name for metric in data.resource_metrics[0].scope_metrics[0].metrics}
        assert {"ehkafka.running", "ehkafka.workers", "ehkafka.lanes"} <= names


def test_an_error_of_the_app_s_is_the_sdk_s_to_log(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """And the next collection works."""
    source = Source(ONE)
    Metrics(source, meter_provider=observed.provider)
    source.now = None  # type: ignore[assignment]
    assert observed.value("ehkafka.running") is None
    assert "ehkafka.running" in caplog.text
    source.now = ONE
    assert observed.value("ehkafka.running") == 1


def test_older_names_stand_beside_where_that_is_wanted(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with spans."""
    monkeypatch.setenv(conventions.OPT_IN, "messaging/dup")
    Metrics(Source(ONE), meter_provider=observed.provider)
    old = {conventions.OLD_GROUP: "g", conventions.OLD_PARTITION: 3}
    [point] = observed.all()["ehkafka.lag.records"].data.data_points
    assert old.items() <= dict(point.attributes).items()


def test_several_apps_differ_by_their_group(observed: Observed) -> None:
    """Two of one group are refused; calls are timed from then on."""
    first = Source(ONE)
    Metrics(first, Source(replace(ONE, group="other")), meter_provider=observed.provider)
    assert first.is_measured
    assert observed.value("ehkafka.lag.records") == 10
    assert observed.value("ehkafka.lag.records", **named({"group": "other"})) == 5
    with pytest.raises(ConfigurationError, match=r"Metrics: .*same group"):
        Metrics(Source(ONE), Source(ONE))


@pytest.mark.parametrize(
    ("module", "package", "face"),
    [
        ("opentelemetry", "opentelemetry-api", "ehkafka.otel.Metrics"),
        ("prometheus_client", "prometheus-client", "ehkafka.metrics.Collector"),
    ],
)
def test_without_its_package_the_error_names_the_extra(module: str, package: str, face: str) -> None:
    """The face is there all the same, and the catalogue."""
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import ehkafka.metrics, ehkafka.otel, ehkafka.telemetry.catalogue\n"
        f"try: {face}(None)\n"
        "except ehkafka.errors.MissingExtraError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith(f"Metrics need {package}: pip install '{package}>=")


def test_a_program_may_set_its_provider_later() -> None:
    """As an app is made where it is imported, and the SDK set up where the program starts."""
    code = (
        "import ehkafka, ehkafka.otel\n"
        "app = ehkafka.App(group='late', endpoint=ehkafka.Endpoint.kafka('127.0.0.1:1'), start='earliest')\n"
        "ehkafka.otel.Metrics(app)\n"
        "assert not any(name.startswith('opentelemetry.sdk') for name in __import__('sys').modules)\n"
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.metrics.export import InMemoryMetricReader\n"
        "reader = InMemoryMetricReader()\n"
        "metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))\n"
        "[found] = reader.get_metrics_data().resource_metrics[0].scope_metrics\n"
        "print(sorted(one.name for one in found.metrics)[-1], found.scope.schema_url)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["ehkafka.uptime", conventions.SCHEMA_URL]
