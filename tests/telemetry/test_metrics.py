"""Metrics of snapshots: which series there are, and that each number comes from its place."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ehkafka.errors import ConfigurationError
from ehkafka.metrics import Collector, exposition
from ehkafka.records import TopicPartition
from ehkafka.telemetry.catalogue import ALL, COMMON_LABELS, UNITS
from ehkafka.telemetry.snapshot import MemberSnapshot, Snapshot
from tests.kit.metrics import Shown
from tests.kit.pictures import HANDLER, MEMBER, ONE, PARTITION, SHOWN, Source

if TYPE_CHECKING:
    from ehkafka.telemetry.catalogue import Metric

EXPOSITION_S = 0.150


def shown(snapshot: Snapshot) -> Shown:
    """Return what a collector makes of a snapshot."""
    return Shown(Collector(Source(snapshot)))


def supervised(*members: MemberSnapshot) -> Snapshot:
    """Return a supervisor's snapshot."""
    return replace(ONE, members=members, received_records=99)


def test_every_metric_is_looked_at() -> None:
    """A new one has its place here."""
    assert list(SHOWN) == [metric.name for metric in ALL]


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_each_number_comes_from_its_place(metric: Metric[Any]) -> None:
    """With the labels that the catalogue names, of an app alone and of a member."""
    value, labels = SHOWN[metric.name]
    name = f"{metric.name}_bucket" if metric.kind == "histogram" else metric.name
    of_member = shown(supervised(MEMBER))
    assert of_member.value(name, group="g", member="2", **labels) == value
    assert {*of_member.series(name, **labels)[0]} == {*COMMON_LABELS, *metric.labels, *labels}
    if not metric.name.startswith("ehkafka_member_"):
        of_app = shown(ONE)
        assert of_app.value(name, group="g", **labels) == value
        assert {*of_app.series(name, **labels)[0]} == {"group", *metric.labels, *labels}


def test_names_follow_the_rules_of_prometheus() -> None:
    """Counters end with `_total` and nothing else does; units are written out; no key is a label."""
    for metric in ALL:
        assert metric.name.startswith("ehkafka_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.unit in {*UNITS, ""}
        assert not {"key", "offset", "error"}.intersection(metric.labels)
        assert metric.meaning.endswith(".")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert sorted(metric.buckets) == list(metric.buckets)


def test_no_series_has_a_record_s_key() -> None:
    """Neither as a label nor as a value of one: there are millions."""
    text, _ = exposition(Collector(Source(supervised(MEMBER))))
    assert b"a key" not in text


def test_what_is_unknown_has_no_series() -> None:
    """An unknown lag that is shown as 0 would hide the worst."""
    unknown = replace(PARTITION, lag_records=None, watermark=None, committed=None, oldest=None)
    one = shown(
        replace(ONE, partitions=(unknown,), mirror=None, token_valid_s=None, socket_bytes=None, handlers=())
    )
    for name in ("lag_records", "watermark_next_offset", "committed_next_offset", "mirror_delay_seconds"):
        assert one.value(f"ehkafka_{name}") is None
    for name in ("token_valid_seconds", "received_bytes_total", "handler_seconds_count", "workers"):
        assert one.value(f"ehkafka_{name}") is None
    # Nothing unfinished is known to be nothing.
    assert one.value("ehkafka_oldest_unfinished_seconds") == 0


def test_a_partition_has_series_only_while_it_is_ours() -> None:
    """Those of one that went are gone with the next look."""
    source = Source(ONE)
    seen = Shown(Collector(source))
    assert seen.value("ehkafka_backlog_records", partition="3") == 6
    source.now = replace(ONE, partitions=())
    assert seen.value("ehkafka_backlog_records") is None
    assert seen.value("ehkafka_partitions") == 0


def test_a_histogram_s_buckets_add_up() -> None:
    """Each holds what lies below, the last all; the sum is the calls' time."""
    one = shown(ONE)
    buckets = [
        one.value("ehkafka_handler_seconds_bucket", le=end["le"])
        for end in one.series("ehkafka_handler_seconds_bucket")
    ]
    assert buckets == sorted(buckets, key=lambda count: count or 0)
    assert (buckets[8], buckets[9], buckets[10], buckets[-1]) == (0, 4, 5, 5)
    assert one.value("ehkafka_handler_seconds_count") == 5
    assert one.value("ehkafka_handler_seconds_sum") == 2.5


def test_a_member_with_other_buckets_has_no_histogram() -> None:
    """It is of another version, in the middle of a rolling restart; all else of it is shown."""
    one = shown(replace(ONE, handlers=(replace(HANDLER, call_counts=(1, 2)),)))
    assert one.value("ehkafka_handler_seconds_count") is None
    assert one.value("ehkafka_workers") == 18


def test_of_a_supervisor_each_member_stands_for_itself() -> None:
    """Nothing is counted twice, and one that has not answered yet shows that it is not there."""
    other = replace(ONE, partitions=(replace(PARTITION, partition=TopicPartition("orders", 4)),))
    down = MemberSnapshot(3, None, "waiting", 5, False, False, None, "signal SIGKILL", None)
    one = shown(supervised(MEMBER, replace(MEMBER, number=1, snapshot=other), down))
    assert one.value("ehkafka_received_records_total") == 2 * 22
    assert one.value("ehkafka_lag_records", member="1", partition="4") == 5
    assert one.value("ehkafka_member_live", member="3") == 0
    assert one.value("ehkafka_member_restarts_total", member="3") == 5
    assert one.value("ehkafka_running", member="3") is None
    assert one.value("ehkafka_member_silence_seconds", member="3") is None


def test_a_member_that_was_started_again_counts_from_its_own_start() -> None:
    """Its counters fall to what its new process has counted, never to anything in between."""
    source = Source(supervised(MEMBER))
    seen = Shown(Collector(source))
    name = "ehkafka_finished_records_total"
    assert seen.value(name, member="2") == 23
    source.now = supervised(replace(MEMBER, snapshot=None, pid=None, restarts=42))
    assert seen.value(name, member="2") is None
    source.now = supervised(replace(MEMBER, snapshot=replace(ONE, finished_records=1), restarts=42))
    assert seen.value(name, member="2") == 1


def test_a_registry_takes_one_collector_with_several_apps() -> None:
    """A second collector is refused by the registry, two apps of one group by the collector."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(Collector(Source(ONE), Source(replace(ONE, group="other"))))
    families = list(text_string_to_metric_families(prometheus_client.generate_latest(registry).decode()))
    lags = [one for family in families for one in family.samples if one.name == "ehkafka_lag_records"]
    assert [one.labels["group"] for one in lags] == ["g", "other"]
    assert len({family.name for family in families}) == len(families)
    with pytest.raises(ValueError, match="ehkafka_lag_records"):
        registry.register(Collector(Source(ONE)))
    with pytest.raises(ConfigurationError, match="same group"):
        Collector(Source(ONE), Source(ONE))


@pytest.mark.parametrize(
    ("accept", "kind"), [("", "text/plain"), ("application/openmetrics-text; version=1.0.0", "openmetrics")]
)
def test_the_exposition_can_be_read(accept: str, kind: str) -> None:
    """In both formats, with what the format wants at its end."""
    text, content_type = exposition(Collector(Source(supervised(MEMBER))), accept)
    assert kind in content_type
    assert b'ehkafka_lag_records{group="g",member="2",partition="3",topic="orders"} 5' in text
    assert b"# TYPE ehkafka_handler_seconds histogram" in text
    assert text.endswith(b"# EOF\n") == bool(accept)


def test_a_collector_has_calls_timed() -> None:
    """From the moment on that it is made."""
    source = Source(ONE)
    Collector(source)
    assert source.is_measured


def test_many_partitions_are_shown_quickly() -> None:
    """Scraping must not be felt: a large member, the quickest of some looks, in the thread's own time."""
    named = (replace(PARTITION, partition=TopicPartition("orders", number)) for number in range(500))
    collector = Collector(Source(replace(ONE, partitions=tuple(named))))
    took_s = []
    for _ in range(5):
        began_s = time.thread_time()
        text, _ = exposition(collector)
        took_s.append(time.thread_time() - began_s)
    assert text.count(b"ehkafka_lag_records{") == 500
    assert min(took_s) < EXPOSITION_S
