"""Errors that librdkafka reports in the stream or by callback: which of them end the app, and how.

On the poll thread. What librdkafka fixes itself is reported as an event and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError, FencedError, TopicNotFoundError
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import ended, seconds
from ehkafka.wording.calling import did_you_mean
from ehkafka.wording.line import cannot_read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from confluent_kafka import Consumer, Message


LOOKUP_TIMEOUT_S = 5.0

# Errors differ by code alone: `==` of a `KafkaError`
# and a text leaves an exception set in C, and the next call of anything fails.
_FENCED = {KafkaError.FENCED_INSTANCE_ID, ClientCode.FENCED}
# Of one partition: its next offset is not in the log.
NO_SUCH_OFFSET = {ClientCode.AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, ClientCode.LOG_TRUNCATION}
_NO_SUCH_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    ClientCode.UNKNOWN_TOPIC,
    ClientCode.UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
# Connection errors that tell why nothing can be reached.
EXPLAINING = {ClientCode.AUTHENTICATION, ClientCode.RESOLVE, ClientCode.SSL}
# Those that librdkafka keeps trying to fix for as long as it takes; the app hears of them.
MAY_RECOVER = {ClientCode.ALL_BROKERS_DOWN, *EXPLAINING}
# Of one batch: its checksum, compression or format cannot be read, or it is larger than a client may fetch.
_OF_A_BATCH = {
    ClientCode.BAD_MSG,
    ClientCode.BAD_COMPRESSION,
    ClientCode.NOT_IMPLEMENTED,
    ClientCode.CRIT_SYS_RESOURCE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.MSG_SIZE_TOO_LARGE,
}
_NO_FAILED_FETCH = {ClientCode.PARTITION_EOF, *NO_SUCH_OFFSET, *_NO_SUCH_TOPIC, *_DENIED, *_FENCED}


class FailedFetch(NamedTuple):
    """Why a partition cannot be read from an offset on."""

    partition: TopicPartition
    offset: int
    error: KafkaError

    @property
    def is_batch(self) -> bool:
        """Whether a batch there cannot be read; else the broker answers the fetches with an error."""
        return self.error.code() in _OF_A_BATCH

    def text(self) -> str:
        """Say what and where, without what to do."""
        reason = describe_error(self.error)
        return cannot_read(f"{self.partition}@{self.offset}", reason, is_batch=self.is_batch)


def failed_fetch(message: Message) -> FailedFetch | None:
    """Return what a message says of its partition, where that is an error of it; else None.

    Not where the log ends or does not hold the offset, nor what ends an app: a topic that is gone or denied.
    """
    error = message.error()
    if error is None or error.code() in _NO_FAILED_FETCH or error.fatal():
        return None
    topic, number, offset = message.topic(), message.partition(), message.offset()
    # Errors of the group, of commits and of whole topics name no partition or no offset.
    if topic is None or number is None or number < 0 or offset is None or offset < 0:
        return None
    return FailedFetch(TopicPartition(topic, number), offset, error)


def ends_app(consumer: Consumer, error: KafkaError, topics: set[str]) -> EhkafkaError | None:
    """Return the error that ends the app, None when librdkafka fixes it or nothing was lost.

    May ask the broker and wait a few seconds.
    """
    if error.code() in _NO_SUCH_TOPIC:
        return missing_topics(consumer, topics)
    return refused(error)


def refused(error: KafkaError) -> EhkafkaError | None:
    """Return the error that ends the app where waiting cures nothing; else None."""
    code = error.code()
    # What the error callback is given for a fatal error does not call itself fatal.
    is_fatal = error.fatal() or code == ClientCode.FATAL
    if code in _FENCED or (is_fatal and "fenced" in error.str().lower()):
        return FencedError(
            f"The group fenced this process: {ended(describe_error(error))} "
            "Another process uses the same group.instance.id: give each process its own. If no other "
            "process uses it, the group's coordinator failed while this process joined: start this process "
            "again."
        )
    if code in _DENIED:
        return EndpointError(f"The broker refuses access: {describe_error(error)}")
    if is_fatal:
        return EndpointError(f"The client cannot recover: {describe_error(error)}")
    return None


def unreachable(
    addresses: str, waited_s: float, reported: Sequence[KafkaError], refusal: BaseException | None
) -> EndpointError:
    """Return the error for a broker that has not answered at the start.

    `reported` is what the client said by callback, with the reason; `refusal` mostly says that time ran out.
    """
    tried = f"{addresses} could not be reached within {seconds(waited_s)}"
    if (known := next((each for each in reported if each.code() in EXPLAINING), None)) is not None:
        return EndpointError(f"{tried}: {ended(describe_error(known))}")
    broken = next((each for each in reported if each.code() == ClientCode.TRANSPORT), None)
    if broken is None and isinstance(refusal, KafkaException):
        broken = refusal.args[0]
    why = f": {' '.join(broken.str().split())}" if broken is not None else ""
    return EndpointError(
        f"{ended(tried + why)} Check the address and port (Event Hubs: 9093; its emulator and many "
        f"brokers: 9092), that the broker runs, and any firewall or private endpoint on the route."
    )


# What to do about a handler's own topic, one for dead letters, one for outputs.
_MISSING: Final = (
    "Create the topic, or correct the handler's topic.",
    "A handler's dead letters go to that topic: create the topic, or correct on_failure=DeadLetter(…).",
    "A handler's outputs go to that topic: create the topic, or correct to=.",
)


def missing_topics(
    consumer: Consumer,
    topics: set[str],
    timeout_s: float = LOOKUP_TIMEOUT_S,
    *,
    letters: Collection[str] = (),
    outputs: Collection[str] = (),
    note_partitions: Callable[[dict[str, int]], object] = lambda _counts: None,
) -> EhkafkaError | None:
    """Ask which of the topics exist; return the error to raise when one does not, None when all do.

    `letters` are the topics of dead letters, `outputs` those that handlers send to; `note_partitions` takes
    how many partitions the others have. Raises `EndpointError` when the broker cannot be asked.
    """
    try:
        # All topics, not one by one: asking for one by name may create it.
        known = consumer.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise EndpointError(f"The broker cannot be reached: {describe_error(error.args[0])}") from error
    lacking = [
        (missing, fix)
        for asked, fix in zip((topics, letters, outputs), _MISSING, strict=True)
        if (missing := sorted(one for one in asked if one not in known or known[one].error is not None))
    ]
    if not lacking:
        note_partitions({topic: len(known[topic].partitions) for topic in topics})
        return None
    return _not_there(*lacking[0], sorted(topic for topic in known if not topic.startswith("__")))


def _not_there(missing: list[str], fix: str, there: list[str]) -> TopicNotFoundError:
    """Return the error, with the name that a single one probably means, and up to ten that exist."""
    meant = did_you_mean(missing[0], there) if len(missing) == 1 else ""
    shown = ", ".join(there[:10]) + (" …" if len(there) > 10 else "") if there else "none"
    return TopicNotFoundError(
        f"There is no topic {', '.join(map(repr, missing))} on this broker{meant or '.'} {fix} "
        f"Topics on the broker: {shown}."
    )
