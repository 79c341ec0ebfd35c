"""`ehkafka lag`: what is undone, and which record each commit waits for."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException

import ehkafka
from ehkafka.checks.target import Target
from ehkafka.cli.lag import KEY_CHARACTERS_MAX, age_of, lag_as_dict, lag_as_text
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError
from ehkafka.offsets import GroupOffsets, LagReport, PartitionView
from ehkafka.offsets import blocking as module
from ehkafka.offsets.blocking import Blocking
from ehkafka.positions.gap import LogBounds
from ehkafka.testing import EmbeddedBroker
from tests.cli.test_offsets import MEMBER, commit_from_outside, reset
from tests.cli.test_offsets import ehkafka as command
from tests.kit.faults.network import Network
from tests.kit.faults.tcp_proxy import TcpProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with three partitions, of which two have records."""
    with EmbeddedBroker({"t": 3}) as broker:
        for partition in range(2):
            records = [(f"k{number}".encode(), b"v") for number in range(10)]
            broker.produce("t", records, partition=partition)
        yield broker


def lag_of(broker: EmbeddedBroker) -> dict[str, Any]:
    """Return what the command says to programs."""
    code, text, error = command(broker, "lag", "t", "--json")
    assert code == 0, error
    found: dict[str, Any] = orjson.loads(text)
    return found


def handled_but(broker: EmbeddedBroker, *keys: bytes) -> None:
    """Let an app of the group handle everything but these keys, which it leaves held."""
    endpoint = ehkafka.Endpoint.kafka(broker.bootstrap)
    app = ehkafka.App(group="g", endpoint=endpoint, start="earliest", commit_interval_s=0.1, consumer=MEMBER)

    @app.handler("t", on_failure=ehkafka.Hold())
    def handle(record: ehkafka.Record) -> None:
        if record.key() in keys:
            raise ValueError("held")

    with app:
        wait_until(lambda: app.snapshot().parked_records >= 2 * len(keys))
        wait_until(lambda: app.snapshot().finished_records >= 20 - 2 * len(keys))


def test_what_is_saved_as_finished_is_not_undone(broker: EmbeddedBroker) -> None:
    """A commit that a held key keeps low, and 12 of the 14 records above it are done."""
    handled_but(broker, b"k3", b"k7")
    found = lag_of(broker)
    assert (found["total_lag"], found["total_unfinished"]) == (14, 4)
    assert not found["total_unfinished_is_at_least"]
    rows = found["partitions"]
    assert [(one["committed"], one["lag"], one["unfinished"]) for one in rows[:2]] == [(3, 7, 2)] * 2
    assert [one["blocked_by"]["offset"] for one in rows[:2]] == [3, 3]
    assert rows[0]["blocked_by"]["key"] == "k3"
    assert 0 <= rows[0]["blocked_by"]["age_s"] < 60
    assert (rows[2]["unfinished"], rows[2]["blocked_by"]) == (0, None)
    _, text, _ = command(broker, "lag", "t")
    assert text.splitlines()[2].split() == [
        "PARTITION", "LOG", "START", "LOG", "END", "COMMITTED", "LAG", "UNFINISHED", "BLOCKED", "BY",
    ]  # fmt: skip
    assert "@3 key k3, " in text
    assert text.splitlines()[-2:] == ["unfinished 4", "total lag 14"]


def test_a_leader_that_does_not_answer_is_named_with_its_partitions() -> None:
    """The other one's logs are known, and yet there is no sum to show."""
    with EmbeddedBroker({"t": 4}, brokers=2) as broker, TcpProxy() as proxy:
        first, second = broker.bootstrap.split(",")
        proxy.forward_to(second)
        broker.advertise("127.0.0.1", proxy.port, 2)
        for partition in range(4):
            broker.move_leader("t", partition, 1 + partition % 2)
        broker.set_coordinator("g", 1)
        proxy.network = Network(black_hole=True)
        target = Target(endpoint=ehkafka.Endpoint.kafka(first), group="g")
        with GroupOffsets(target, "t", timeout_s=1.0) as group, pytest.raises(EndpointError) as caught:
            group.views()
    expected = f"the first and last offsets of t[1], t[3], led by broker 2 ({proxy.address}), cannot be read"
    assert expected in str(caught.value)


def test_partitions_without_a_leader_are_named_with_what_to_look_at(broker: EmbeddedBroker) -> None:
    """Their broker is down: neither the partition's number nor the address is wrong."""
    broker.move_leader("t", 1, None)
    code, _, error = command(broker, "lag", "t")
    assert code == 3
    assert (
        "no broker leads t[1], so the start and end of their logs are not known. Start the brokers" in error
    )
    assert "fewer partitions" not in error
    assert "address" not in error


def test_a_plain_clients_commit_says_nothing_of_what_is_undone(broker: EmbeddedBroker) -> None:
    """The sum is of those that do: at least so many. What nothing is left of is known all the same."""
    commit_from_outside(broker, 0, 4)
    commit_from_outside(broker, 2, 0)
    reset(broker, "--to", "1=8", "--yes")
    found = lag_of(broker)
    assert [one["unfinished"] for one in found["partitions"]] == [None, 2, 0]
    assert (found["total_unfinished"], found["total_unfinished_is_at_least"]) == (2, True)
    _, text, _ = command(broker, "lag", "t")
    assert "unfinished at least 2" in text.splitlines()
    assert text.splitlines()[3].split()[:6] == ["0", "0", "10", "4", "6", "–"]


def test_who_is_not_behind_is_blocked_by_nothing(broker: EmbeddedBroker) -> None:
    """And nothing is read."""
    reset(broker, "--to", "latest", "--yes")
    broker.track_requests()
    assert {one["blocked_by"] for one in lag_of(broker)["partitions"]} == {None}
    assert broker.requests(ApiKey.FETCH) == []


@pytest.mark.parametrize("listed", [["h", "g1"], ["g"], None])
def test_a_group_that_commits_nothing_here_is_said_so(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, listed: list[str] | None
) -> None:
    """A mistyped name is no group without lag; what is like it is named where the broker lists groups."""

    class Admin:
        def __init__(self, *_: Any, **_named: Any) -> None:
            self.valid = [SimpleNamespace(group_id=name) for name in listed or ()]

        def list_consumer_groups(self, **_: Any) -> Any:
            return self

        def result(self) -> Any:
            if listed is None:  # Event Hubs and the embedded broker list nothing
                raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE))
            return self

    monkeypatch.setattr("ehkafka.offsets.members.AdminClient", Admin)
    code, text, _ = command(broker, "lag", "t")
    assert (code, "No group g has commits on topic t" in text) == (0, True)
    assert ("Groups of a similar name: g1." in text) == (listed == ["h", "g1"])
    assert lag_of(broker)["has_commits"] is False


def test_a_record_that_does_not_come_in_time_is_said_so(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag itself is shown, and the others' records."""
    monkeypatch.setattr("ehkafka.offsets.group.READ_S", 1.0)
    broker.move_leader("t", 1, None)
    began_s = time.monotonic()
    views = {n: PartitionView(n, LogBounds(0, 10), 0) for n in range(2)}
    from ehkafka.checks.target import Target  # noqa: PLC0415 - this test alone asks without the command
    from ehkafka.offsets import GroupOffsets  # noqa: PLC0415 - as above

    target = Target(endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), group="g")
    with GroupOffsets(target, "t") as group:
        found = group.blocking(views)
    assert time.monotonic() - began_s < 8.0
    assert found[0].key == b"k0"
    assert found[1] == Blocking(0, problem="not read in time")


HOSTILE = {
    b"\x1b[2J\nx": "@5 key \\x1b[2J\\nx, 90 s old",
    b"\xff\xfe": "@5 key base64://4=, 90 s old",
    b"k" * 1000: f"@5 key {'k' * (KEY_CHARACTERS_MAX - 1)}…, 90 s old",
    None: "@5 no key, 90 s old",
    b"": "@5 an empty key, 90 s old",
}


@pytest.mark.parametrize("key", HOSTILE, ids=lambda key: repr(key)[:20])
def test_a_key_is_printed_escaped_and_cut(key: bytes | None) -> None:
    """Whatever its producer has put into it; a program gets all of it."""
    report = LagReport((PartitionView(0, LogBounds(0, 10), 5, (), True),))
    blocking = {0: Blocking(5, key, 1_000)}
    line = lag_as_text(report, blocking, 91.0).splitlines()[1]
    assert line.endswith(HOSTILE[key])
    assert lag_as_dict(report, blocking, 91.0)["partitions"][0]["blocked_by"] == {
        "offset": 5,
        "key": None if key is None else "base64://4=" if key == b"\xff\xfe" else key.decode(),
        "timestamp_ms": 1_000,
        "age_s": 90.0,
        "problem": None,
    }  # fmt: skip


def test_what_was_left_out_of_a_commit_makes_it_at_most() -> None:
    """Not all that was finished had room: fewer may be left."""
    some = PartitionView(0, LogBounds(0, 100), 10, ((11, 41),), True, False)
    plain = PartitionView(1, LogBounds(0, 100), 10)
    text = lag_as_text(LagReport((some,)), {}, 0.0)
    assert "≤ 60" in text
    assert "unfinished at most 60" in text
    assert "unfinished about 60" in lag_as_text(LagReport((some, plain)), {}, 0.0)


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(0.42, "0.42 s"), (90, "90 s"), (130, "2 min"), (7200, "2 h"), (172_800, "2 d"), (3e7, "347 d")],
)
def test_an_age_stands_in_its_largest_unit(age_s: float, words: str) -> None:
    """Two of it at least."""
    assert age_of(age_s) == words


def test_the_record_is_one_that_the_group_would_be_given() -> None:
    """Of a transaction that was aborted none is; a group that reads those is blocked by them, too."""
    assert module.reading_properties({})["isolation.level"] == "read_committed"
    uncommitted = {"isolation.level": "read_uncommitted"}
    assert module.reading_properties(uncommitted)["isolation.level"] == "read_uncommitted"
