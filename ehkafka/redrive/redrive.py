"""Redrive: brings the records of a dead-letter topic back to where they came from.

Joins a group of its own whose commits are its progress: below a commit every letter is safe at home, or was
passed over. So an interrupted redrive goes on where it was, writing at most the last second's records again.
It writes nothing before the targets were found and the group was seen empty. The run itself is `run`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.topic_reader import TopicReader
from ehkafka.endpoint.client import describe_error, open_consumer
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.endpoint.properties.ahead import OF_A_COMMAND
from ehkafka.endpoint.properties.layers import admin_properties, consumer_properties
from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.origin import LetterFilter, letter_origin
from ehkafka.redrive.order import RedriveCount
from ehkafka.redrive.run import RedriveRun
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from confluent_kafka import Consumer

    from ehkafka.checks.target import Target
    from ehkafka.records import Record
    from ehkafka.recovery.letters.origin import LetterOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """One redrive of a dead-letter topic: its letters go back to where they came from.

    - `target` (required): the endpoint, as `ehkafka.checks.Target`.
    - `topic` (required): the dead-letter topic.
    - `choose` (default `LetterFilter()`): which letters; all by default.
    - `to` (default `None`): another topic to bring them to. `None`: each letter's own.
    - `group` (default `""`): the group whose commits are the progress. Empty: `<topic>.redrive`.
    - `timeout_s` (seconds, default `10.0`): how long each question to the broker may take.
    """

    target: Target
    topic: str
    choose: LetterFilter = field(default_factory=LetterFilter)
    to: str | None = None
    group: str = ""
    timeout_s: float = 10.0

    @property
    def group_name(self) -> str:
        """The group that keeps the progress."""
        return self.group or f"{self.topic}.redrive"

    def home_of(self, record: Record, origin: LetterOrigin | None) -> TopicPartition | None:
        """Return where a letter's record goes, None where it stays."""
        if origin is None or not self.choose.takes(record, origin):
            return None
        return TopicPartition(self.to or origin.partition.topic, origin.partition.partition)

    def to_read(self, consumer: Consumer) -> dict[int, range]:
        """Return the offsets to read, by partition. Raises `ConfigurationError` for another log's commit."""
        names = [TopicPartition(self.topic, number) for number in self._partitions(consumer)]
        logs = log_bounds(consumer, names, self.timeout_s)
        answers = consumer.committed([KafkaPartition(*name) for name in names], timeout=self.timeout_s)
        committed = {answer.partition: answer.offset for answer in answers}
        for name, log in logs.items():
            if committed[name.partition] > log.end:
                raise ConfigurationError(
                    f"The group {self.group_name!r} is ahead of the letters: its commit of {name} is "
                    f"{committed[name.partition]}, and the log ends at {log.end}. The topic "
                    "was probably recreated; another --group begins at its first letter."
                )
        # Negative where the group has none.
        return {
            name.partition: range(max(log.start, committed[name.partition]), log.end)
            for name, log in logs.items()
        }

    def plan(self) -> RedriveCount:
        """Return what `run` would do now; nothing is joined, written or committed."""
        count = RedriveCount()
        with self._consumer() as consumer:
            offsets = self.to_read(consumer)
        begin: dict[Any, Any] = {"*": "earliest", **{(self.topic, n): o.start for n, o in offsets.items()}}
        reader = TopicReader(
            self.target,
            self.topic,
            begin=begin,
            timeout_s=self.timeout_s,
            group=self.group_name,
            to_end=True,
        )
        with reader:
            for batch in reader.batches():
                for record in batch:
                    origin = letter_origin(record)
                    count.count(self.home_of(record, origin), is_letter=origin is not None)
        return count

    def check_homes(self, homes: Iterable[TopicPartition]) -> None:
        """Refuse homes that are not there, before anything is written to the others."""
        with self._consumer() as consumer:
            there = consumer.list_topics(timeout=self.timeout_s).topics
        for home in sorted(homes):
            found = there.get(home.topic)
            if home.topic == self.topic:
                raise ConfigurationError(f"{home.topic!r} holds the dead letters itself: give another --to.")
            if found is None or found.error is not None or home.partition not in found.partitions:
                raise TopicNotFoundError(
                    f"There is no {home} on this broker, to which letters are to be brought back. Make it,"
                    " name another topic with --to, or leave these letters out with --origin-topic."
                )

    def run(
        self,
        report: Callable[[RedriveCount], object] = lambda _count: None,
        *,
        planned: RedriveCount | None = None,
    ) -> RedriveCount:
        """Bring home what the filter takes; `report` is called now and then with how far it is.

        Writes nothing where a home is not there. `planned` is what `plan` returned, if it was asked already:
        else the letters are read twice. Raises `EndpointError`, `TopicNotFoundError` or `ConfigurationError`.
        """
        self.check_homes((planned or self.plan()).to)
        refuse_if_joined(self.target, self.group_name, self.timeout_s)
        with self._consumer() as consumer:
            run = RedriveRun(self, consumer, report)
            run.join()
            return run.bring_home()

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        properties = consumer_properties(
            self.target.endpoint,
            self.group_name,
            self.target.consumer,
            assignor="default",
            instance_id=None,
            ahead=OF_A_COMMAND,
        )
        # Our own client: the end of a compacted log may be nothing that is delivered.
        consumer = open_consumer(
            {**properties, "enable.partition.eof": True}, logger=ClientLog(lambda _event: None)
        )
        try:
            yield consumer
        except KafkaException as error:
            raise EndpointError(f"The redrive ended: {ended(describe_error(error.args[0]))}") from None
        finally:
            consumer.close()

    def _partitions(self, consumer: Consumer) -> list[int]:
        found = consumer.list_topics(timeout=self.timeout_s).topics.get(self.topic)
        if found is None or found.error is not None:
            raise TopicNotFoundError(f"There is no topic {self.topic!r} on this broker. Correct the name.")
        return sorted(found.partitions)


# The broker cannot say, or may not say it to us.
_NOT_REPORTED = {
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - the coordinator is only being made
}


def refuse_if_joined(target: Target, group: str, timeout_s: float) -> None:
    """Raise `ConfigurationError` where the group has a member, `EndpointError` where the broker is away.

    Asked once, before joining it. A broker that cannot be asked (the embedded one has no administration) is
    left to the second guard: the group gives a member that is not alone only a part of the partitions.
    """
    admin = AdminClient(admin_properties(target.endpoint), logger=ClientLog(lambda _event: None))
    try:
        found = admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result()
    except KafkaException as error:
        if error.args[0].code() in _NOT_REPORTED:
            return
        text = ended(describe_error(error.args[0]))
        raise EndpointError(f"Cannot find out whether another redrive runs: {text}") from None
    if members := len(found.members):
        raise ConfigurationError(
            f"The group {group!r} has {members} member(s): another redrive runs. Wait until it ends, or name"
            " another group, which begins at the first letter."
        )
