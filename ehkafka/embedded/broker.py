"""An embedded Kafka broker: librdkafka's mock cluster, in this process, up in milliseconds.

Responsible for topics, faults and the request log of one local cluster, in names a test
can read. It must never reach beyond 127.0.0.1. Called by tests, the pytest plugin and
demos, on any thread; `close` only when no other thread still calls.

It is no Apache Kafka (seen with librdkafka 2.16):

- no SASL, TLS, admin requests, quotas or limit on commit metadata;
- a partition drops its oldest records beyond 5 MiB or 100 000 batches, without a word;
- no look-up of offsets by time: apps read the partitions for it, other clients get its end;
- `group.instance.id` is no identity: no member is fenced, a restart is a new member;
- a group whose members disagree on their first assignor aborts the whole process;
- commits are refused while a group rebalances, those of a revoke too, which Kafka takes until their member
  joins again: what they would save is repeated;
- once a group has had a member, only members can commit for it, even after all have left;
- a commit that carries an older leader epoch than the partition's is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaError

from ehkafka.embedded import topics as topic_io
from ehkafka.embedded.answers import AnswerQueues
from ehkafka.embedded.mock_cluster import EmbeddedBrokerError, MockCluster
from ehkafka.embedded.numbers import INT32_MAX, INT64_MAX, is_whole
from ehkafka.embedded.requests import ApiKey, TrackedRequest, check_api_key, check_code
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from ehkafka.embedded.topics import Headers, KeyAndValue

DEFAULT_PARTITIONS: Final = 16
"""Partitions of a topic whose count a test does not care about."""

_ALL_BROKERS: Final = -1
_NO_LEADER: Final = -1
_REPLICAS_MAX: Final = 3
_BROKERS_MAX: Final = 20
_PORT_MAX: Final = 65_535
_PARTITIONS_MAX: Final = 10_000
# Newer versions name the leader in the answer "I am not the leader". Where there is none, librdkafka's mock
# cluster reads it from address 0, which ends the process.
_VERSIONS_MAX: Final = {ApiKey.FETCH: 11, ApiKey.PRODUCE: 9}
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class EmbeddedBroker:
    """A local Kafka cluster for tests. Raises `ConfigurationError`.

    ```python
    with EmbeddedBroker({"orders": 4}) as broker:
        broker.produce("orders", [("a", b"1"), ("b", b"2")])
        broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.COORDINATOR_NOT_AVAILABLE)
    ```

    - `topics` (default `None`): numbers of partitions by name, for topics that are made at the start. A topic
      that a client makes by producing to it gets librdkafka's 4 partitions.
    - `brokers` (default `1`): how many. Their ids are 1, 2 and so on.
    """

    def __init__(self, topics: Mapping[str, int] | None = None, *, brokers: int = 1) -> None:
        if not is_whole(brokers, 1, _BROKERS_MAX):
            raise ConfigurationError(f"EmbeddedBroker: brokers={brokers!r:.80}: give 1 to {_BROKERS_MAX}.")
        self._brokers = brokers
        check_topics({} if topics is None else topics)
        self._topics_at_start = dict(topics or {})
        self._cluster: MockCluster | None = None
        self._answers: AnswerQueues | None = None
        self._tracking = False
        self._topics: dict[str, int] = {}
        self._down: set[int] = set()
        self._names_leaders = True

    # Life

    def start(self) -> Self:
        """Start the cluster with the topics given at construction; no-op while it runs."""
        if self._cluster is None:
            self._cluster = MockCluster(self._brokers)
            self._answers = AnswerQueues(self._cluster, self._brokers)
            self._tracking = False
            self._topics.clear()
            self._call("rd_kafka_mock_group_initial_rebalance_delay_ms", 0)
            self._down.clear()
            self._names_leaders = True
            for name, partitions in self._topics_at_start.items():
                self.create_topic(name, partitions)
        return self

    def close(self) -> None:
        """End the cluster, its threads and its data; no-op if it does not run."""
        if self._cluster is not None:
            self._cluster.destroy()
            self._cluster = self._answers = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self.bootstrap if self._cluster else "closed"
        return f"<EmbeddedBroker {where} topics={self._topics}>"

    @property
    def bootstrap(self) -> str:
        """What `bootstrap.servers` takes."""
        return self._running().bootstrap

    @property
    def consumer_properties(self) -> dict[str, str | int]:
        """What a group member here should set: the address, and time-outs that keep rebalances short.

        Whenever a member joins or leaves, the mock cluster waits the session time-out less
        one second before it forms the group again: 44 s with librdkafka's default.
        """
        return {
            "bootstrap.servers": self.bootstrap,
            "session.timeout.ms": 1_500,
            "heartbeat.interval.ms": 100,
        }

    # Topics

    def create_topic(self, name: str, partitions: int = DEFAULT_PARTITIONS) -> None:
        """Create a topic; raise if it exists already.

        - `name` (required): of `A` to `Z`, `a` to `z`, digits, `.`, `_` and `-`, up to 249.
        - `partitions` (default `16`): how many.
        """
        check_topic(name, partitions)
        replicas = min(_REPLICAS_MAX, self._brokers)
        self._call("rd_kafka_mock_topic_create", name.encode(), partitions, replicas)
        self._topics[name] = partitions

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and its groups' commits.

        - `name` (required): of a topic that exists.
        """
        self._check_partition(name, 0)
        self._call("rd_kafka_mock_topic_delete", name.encode())
        del self._topics[name]

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Let a partition's log begin later, as retention would.

        - `topic` (required): its name.
        - `partition` (required): its number.
        - `before_offset` (required): the first offset that is left.
        """
        self._check_partition(topic, partition)
        if not is_whole(before_offset, 0, INT64_MAX):
            raise ConfigurationError(f"before_offset={before_offset!r:.80}: offsets begin at 0: correct it.")
        self._call("rd_kafka_mock_partition_delete_records", topic.encode(), partition, before_offset)

    def set_topic_error(self, topic: str, code: int) -> None:
        """Report an error for a topic in metadata from now on.

        - `topic` (required): its name.
        - `code` (required): a code of `confluent_kafka.KafkaError`. 0 ends it.
        """
        self._check_partition(topic, 0)
        self._call("rd_kafka_mock_topic_set_error", topic.encode(), check_code(code))

    def produce(
        self,
        topic: str,
        records: Iterable[KeyAndValue],
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> int:
        """Produce records and wait for their acknowledgements; return how many.

        - `topic` (required): its name. It is made with 16 partitions if this broker has none of that name.
        - `records` (required): pairs of key and value, each bytes, text or None.
        - `partition` (default `None`): its number, for all of them. None: the key decides.
        - `headers` (default `None`): a dict, or a list of (name, value), for each of them.
        """
        if topic not in self._topics:
            try:
                self.create_topic(topic)
            except EmbeddedBrokerError as refusal:
                # A client made it by producing to it.
                if refusal.code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        return topic_io.produce(self.bootstrap, topic, records, partition=partition, headers=headers)

    def committed(self, group: str, topic: str) -> dict[int, int | None]:
        """Return a group's committed next offset of each partition, None where it has none.

        - `group` (required): its name.
        - `topic` (required): its name.
        """
        return topic_io.committed(self.bootstrap, group, topic)

    # Faults in answers

    def fail_next(self, api_key: ApiKey, *codes: int, broker_id: int | None = None) -> None:
        """Answer the next requests of one type with errors.

        - `api_key` (required): the type of request, such as `ApiKey.FETCH`.
        - `*codes`: codes of `confluent_kafka.KafkaError`, one for each request; 0 lets one pass, `_TRANSPORT`
          closes the connection instead of answering.
        - `broker_id` (default `None`): the broker, from 1, that counts them. None: the whole cluster.
        """
        self._one_or_all(broker_id)
        self._prepared().fail(api_key, codes, broker_id)

    def delay_next(
        self, api_key: ApiKey, delay_s: float, *, times: int = 1, code: int = 0, broker_id: int | None = None
    ) -> None:
        """Hold back the next answers of one type.

        Without an error the request takes effect at once; only the client learns of it late. Later answers on
        the connection wait too: a commit that is late by more than the session time-out (1.5 s with
        `consumer_properties`) costs the member its heartbeats.

        - `api_key` (required): the type of request, such as `ApiKey.FETCH`.
        - `delay_s` (seconds, required): for how long, each of them.
        - `times` (default `1`): how many.
        - `code` (default `0`): of `confluent_kafka.KafkaError`, that they have. 0: none.
        - `broker_id` (default `None`): one broker, from 1. None: each broker counts for itself.
        """
        self._one_or_all(broker_id)
        self._prepared().delay(api_key, _milliseconds(delay_s), times, code, broker_id)

    def clear_failures(self, api_key: ApiKey) -> None:
        """Withdraw what `fail_next` has left; raise if a broker's own queue holds answers, which stay.

        - `api_key` (required): the type of request, such as `ApiKey.FETCH`.
        """
        self._prepared().clear(api_key)

    def disable(self, api_key: ApiKey) -> None:
        """Have a type of request no more, as brokers of older versions: for clients that connect now.

        - `api_key` (required): the type of request, such as `ApiKey.FETCH`.
        """
        self._call("rd_kafka_mock_set_apiversion", check_api_key(api_key), -1, -1)

    # Faults of brokers

    def take_down(self, broker_id: int | None = None) -> None:
        """Cut every connection and refuse new ones. Leaders stay where they are.

        - `broker_id` (default `None`): one broker, from 1. None: all of them.
        """
        self._call("rd_kafka_mock_broker_set_down", self._one_or_all(broker_id))
        self._down.update(self._ids(broker_id))

    def bring_up(self, broker_id: int | None = None) -> None:
        """Accept connections again. Arguments are those of `take_down`."""
        self._call("rd_kafka_mock_broker_set_up", self._one_or_all(broker_id))
        self._down.difference_update(self._ids(broker_id))

    def set_rtt(self, rtt_s: float, broker_id: int | None = None) -> None:
        """Hold back every answer.

        - `rtt_s` (seconds, required): for how long. 0 ends it.
        - `broker_id` (default `None`): one broker, from 1. None: all of them.
        """
        self._call("rd_kafka_mock_broker_set_rtt", self._one_or_all(broker_id), _milliseconds(rtt_s))

    def advertise(self, host: str, port: int, broker_id: int = 1) -> None:
        """Name another address for a broker in metadata, such as a proxy's before it.

        - `host` (required): a name or an address.
        - `port` (required): its number.
        - `broker_id` (default `1`): the broker.
        """
        self._check_broker(broker_id)
        if (
            not isinstance(host, str)
            or not (host.isascii() and host.isprintable())
            or not is_whole(port, 0, _PORT_MAX)
        ):
            raise ConfigurationError(f"advertise({host!r:.80}, {port!r:.80}): give a host name and a port.")
        self._call("rd_kafka_mock_broker_set_host_port", broker_id, host.encode(), port)

    def move_leader(self, topic: str, partition: int, broker_id: int | None) -> None:
        """Make a broker the leader of a partition.

        - `topic` (required): its name.
        - `partition` (required): its number.
        - `broker_id` (required): the broker, from 1. None: the partition has no leader. The first None cuts
          all connections: clients learn from then on that requests which name the leader in their answers are
          not supported.
        """
        self._check_partition(topic, partition)
        leader = _NO_LEADER if broker_id is None else self._check_broker(broker_id)
        if broker_id is None and self._names_leaders:
            self._names_leaders = False
            for api_key, version in _VERSIONS_MAX.items():
                self._call("rd_kafka_mock_set_apiversion", api_key, 0, version)
            for one in set(self._ids(None)) - self._down:
                self.take_down(one)
                self.bring_up(one)
        self._call("rd_kafka_mock_partition_set_leader", topic.encode(), partition, leader)

    def set_coordinator(self, group: str, broker_id: int) -> None:
        """Make a broker the coordinator of a group.

        - `group` (required): its name.
        - `broker_id` (required): the broker, from 1.
        """
        self._check_broker(broker_id)
        topic_io.check_group(group)
        self._call("rd_kafka_mock_coordinator_set", b"group", group.encode(), broker_id)

    # What was asked

    def track_requests(self) -> None:
        """Note every request from now on, and forget those noted before."""
        self._call("rd_kafka_mock_start_request_tracking")
        self._tracking = True

    def requests(self, api_key: ApiKey | None = None) -> list[TrackedRequest]:
        """Return the requests noted since `track_requests`, oldest first.

        - `api_key` (default `None`): the type of request. None: all.
        """
        noted = self._running().requests()
        if not self._tracking:
            raise EmbeddedBrokerError("No request was noted: call track_requests() before the first request.")
        wanted = None if api_key is None else check_api_key(api_key)
        requests = (TrackedRequest.from_wire(*one) for one in noted)
        return [one for one in requests if wanted is None or one.api_key == wanted]

    def _running(self) -> MockCluster:
        if self._cluster is None:
            raise EmbeddedBrokerError(
                "The embedded broker is not running. Use it in a with block, or call start()."
            )
        return self._cluster

    def _prepared(self) -> AnswerQueues:
        self._running()
        assert self._answers is not None
        return self._answers

    def _call(self, name: str, *arguments: object) -> None:
        self._running().call(name, *arguments)

    def _ids(self, broker_id: int | None) -> Sequence[int]:
        return range(1, self._brokers + 1) if broker_id is None else (broker_id,)

    def _one_or_all(self, broker_id: int | None) -> int:
        return _ALL_BROKERS if broker_id is None else self._check_broker(broker_id)

    def _check_broker(self, broker_id: int) -> int:
        if not is_whole(broker_id, 1, self._brokers):
            raise ConfigurationError(
                f"There is no broker {broker_id!r:.80}: give an ID from 1 to {self._brokers}."
            )
        return broker_id

    def _check_partition(self, topic: str, partition: int) -> None:
        # librdkafka would create a topic that it does not know, and trust any number.
        self._running()
        if not isinstance(topic, str) or topic not in self._topics:
            raise ConfigurationError(f"Topic {topic!r} was not made by this broker; call create_topic first.")
        if not is_whole(partition, 0, self._topics[topic] - 1):
            raise ConfigurationError(
                f"Topic {topic} has no partition {partition!r:.80}: give 0 to {self._topics[topic] - 1}."
            )


def check_topics(topics: object) -> None:
    """Refuse what is no mapping of topic names to partition counts. Raises `ConfigurationError`."""
    if not isinstance(topics, Mapping):
        raise ConfigurationError(
            f"The embedded broker's topics are of type {type(topics).__name__}: give names and partition "
            "counts, {'orders': 16}."
        )
    for name, partitions in topics.items():
        check_topic(name, partitions)


def check_topic(name: object, partitions: object) -> None:
    """Refuse what no broker makes a topic of. Raises `ConfigurationError`."""
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r:.80} is no topic name: give 1 to 249 letters, digits, '.', '_' or '-'."
        )
    check_count(partitions, f"Topic {name}")


def check_count(partitions: object, what: str) -> None:
    """Refuse what is not a number of partitions. Raises `ConfigurationError`."""
    if not is_whole(partitions, 1, _PARTITIONS_MAX):
        raise ConfigurationError(f"{what} needs 1 to {_PARTITIONS_MAX} partitions, not {partitions!r:.80}.")


def _milliseconds(duration_s: object) -> int:
    if not isinstance(duration_s, int | float) or not 0 <= duration_s * 1000 <= INT32_MAX:
        raise ConfigurationError(f"A delay is 0 to {INT32_MAX // 1000} seconds, not {duration_s!r:.80}.")
    return round(duration_s * 1000)
