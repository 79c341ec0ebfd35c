"""The properties of the producers of outputs and of `app.producer`: ours, and those of `producer=`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.producer_id import STATISTICS_MS
from ehkafka.endpoint.properties import limits, setting_checks
from ehkafka.endpoint.properties.layers import LETTER_BYTES, letter_properties, producer_properties
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.properties.setting_checks import Owned, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.settings import Settings

# librdkafka's default. A broker's default is a little more.
KAFKA_OUTPUT_BYTES_MAX = 1_000_000
# If a batch is refused, each of its outputs is sent alone.
BATCH_OUTPUTS_MAX = 1_000
# More than all outputs that may be unacknowledged.
QUEUE_MESSAGES = 100_000
# The most requests that an idempotent producer may have in flight. A request is for one partition: with one
# at a time, each partition would wait for a round trip of every other one.
IN_FLIGHT_MAX = 5
# Java's default for the same; librdkafka's is five minutes. A program has an answer within two minutes.
MESSAGE_TIMEOUT_MS = 120_000
# All that librdkafka has; the first one is our default.
PARTITIONERS = (
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
)
ORIGIN = "App(producer=…)"
TRANSACTION_TIMEOUT_MS = "transaction.timeout.ms"
# A broker ends a transaction that is open for longer. After a kill, the next owner's start waits for that.
TRANSACTION_TIMEOUT_DEFAULT_MS = 10_000
OURS = {
    "partitioner": "keys go where Java's producers send them",
    "message.timeout.ms": "how long app.producer tries; outputs have no such limit",
    "message.max.bytes": "a larger message is refused at once",
}
"""Our values, unless the app sets others, and why."""

_TIMEOUT = "message.timeout.ms"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_QUEUE = "queue.buffering.max.messages"
_OWNED = (
    Owned(
        _IN_FLIGHT,
        value=IN_FLIGHT_MAX,
        reason="the engine owns it: sequence numbers keep the order of up to five requests",
        fix="Leave it out",
    ),
    Owned(
        "queuing.strategy",
        value="fifo",
        reason="the engine owns it: any other gives up the order of a key",
        fix="Leave it out",
    ),
    Owned(
        "delivery.report.only.error",
        value=False,
        reason="the engine owns it: a record is committed once its outputs are reported as written",
        fix="Leave it out",
    ),
    Owned(
        "statistics.interval.ms",
        value=STATISTICS_MS,
        reason="the engine owns it: it reads from the statistics whether the broker knows the producer's id",
        fix="Leave it out",
    ),
)
_GIVES_UP = frozenset({"retries", "message.send.max.retries", "queue.buffering.max.kbytes"})
_TAKEN = {
    "enable.gapless.guarantee": "the engine decides it for each producer: order hangs on it",
    "on_delivery": "the engine follows each message through it; app.producer returns a future for each",
}


def output_bytes_max(endpoint: Endpoint, settings: Settings) -> int:
    """Return the largest size of an output: `message.max.bytes`, or else the service's limit.

    The property may be the app's or the endpoint's: on Spark they are one.
    """
    for given, origin in ((settings.producer, ORIGIN), (settings.consumer, "App(consumer=…)")):
        asked = in_one_spelling(given, origin)
        if LETTER_BYTES in asked:
            return whole_number(LETTER_BYTES, asked[LETTER_BYTES])
    if (chosen := endpoint.chosen(LETTER_BYTES)) is not None:
        return whole_number(LETTER_BYTES, chosen)
    return limits.LETTER_BYTES_MAX if endpoint.is_event_hubs else KAFKA_OUTPUT_BYTES_MAX


def check_producer(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    """Return the app's own properties of producers, in one spelling.

    Raises `ConfigurationError` for a property that would break a promise or that the service refuses.
    """
    asked = in_one_spelling(settings.producer, ORIGIN)
    refuse_owned(asked)
    if _TIMEOUT in asked and whole_number(_TIMEOUT, asked[_TIMEOUT]) <= 0:
        raise setting_checks.invalid(
            _TIMEOUT,
            asked[_TIMEOUT],
            "app.producer tries to send a message for this time, and without a limit it may wait without end",
            f"Leave {_TIMEOUT} out: ehkafka sets {MESSAGE_TIMEOUT_MS}. Handlers' outputs have no such limit",
        )
    producer_properties(endpoint, asked, ORIGIN)
    return asked


def refuse_owned(asked: Mapping[str, object]) -> None:
    """Refuse what the engine decides for each producer, and an unknown partitioner.

    Raises `ConfigurationError`.
    """
    for name, reason in _TAKEN.items():
        if name in asked:
            raise setting_checks.invalid(name, asked[name], reason, "Leave it out")
    setting_checks.check_owned(asked, _OWNED)
    if "partitioner" in asked and asked["partitioner"] not in PARTITIONERS:
        known = ", ".join(PARTITIONERS)
        raise setting_checks.invalid(
            "partitioner", asked["partitioner"], "it is unknown", f"Choose one of {known}"
        )


def output_properties(endpoint: Endpoint, settings: Settings, *, at_once: bool = False) -> dict[str, Any]:
    """Return the properties of a producer of outputs and dead letters.

    `at_once`: an output does not wait for others to fill a batch, because its key waits for it.

    A gapless producer ends with the first message that the broker refuses, so no later message is written
    before that one is decided. Messages never time out, so only a refusal ends the producer.
    """
    return {
        **({"linger.ms": 0} if at_once else {}),
        # Brokers refuse whole batches, and each output of a refused one is sent alone.
        "batch.num.messages": BATCH_OUTPUTS_MAX,
        **_common(endpoint, settings),
        _TIMEOUT: 0,
        "enable.gapless.guarantee": True,
    }


def transactional_properties(endpoint: Endpoint, settings: Settings, transactional_id: str) -> dict[str, Any]:
    """Return the properties of the producer of transactions. Raises `ConfigurationError`.

    Its commit acknowledges all messages, so only errors are reported.
    """
    common = _common(endpoint, settings)
    timeout_ms = whole_number(
        TRANSACTION_TIMEOUT_MS, common.get(TRANSACTION_TIMEOUT_MS, TRANSACTION_TIMEOUT_DEFAULT_MS)
    )
    return {
        **common,
        "transactional.id": transactional_id,
        TRANSACTION_TIMEOUT_MS: timeout_ms,
        # librdkafka refuses a longer one.
        _TIMEOUT: timeout_ms,
        "delivery.report.only.error": True,
    }


def may_report_at_once(properties: Mapping[str, object]) -> bool:
    """Tell whether the last message's report may stand for what was handed over before it to its partition.

    Not with properties by which librdkafka may drop one message and write the next one, or may refuse a part
    of a batch, nor with a partitioner that ignores keys. Raises `ConfigurationError`.
    """
    gives_up = _GIVES_UP.intersection(properties) or properties["partitioner"] == "random"
    return not gives_up and whole_number(_QUEUE, properties[_QUEUE]) >= QUEUE_MESSAGES


def message_properties(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    """Return the properties of the producer behind `app.producer`, whose messages may time out.

    A gapless producer ends with the first message that the broker refuses, so no later one of its key is
    written before a message that has to be sent again.
    """
    return {
        _TIMEOUT: MESSAGE_TIMEOUT_MS,
        **_common(endpoint, settings),
        "enable.gapless.guarantee": True,
    }


def message_timeout_s(settings: Settings) -> float:
    """Return how many seconds `app.producer` tries to deliver a message."""
    asked = in_one_spelling(settings.producer, ORIGIN)
    return whole_number(_TIMEOUT, asked.get(_TIMEOUT, MESSAGE_TIMEOUT_MS)) / 1000


def _common(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    asked = check_producer(endpoint, settings)
    return {
        # Java's: a key has the same partition as with Java's producers.
        "partitioner": PARTITIONERS[0],
        # `Unacknowledged` has a lower bound, so a queue of this size is never the limit.
        _QUEUE: QUEUE_MESSAGES,
        # Sequence numbers keep the order, but the embedded broker ignores them.
        _IN_FLIGHT: 1 if endpoint.is_embedded else IN_FLIGHT_MAX,
        **(letters := letter_properties(endpoint, settings.consumer)),
        **asked,
        # A dead letter may be as large as a received record.
        LETTER_BYTES: max(
            whole_number(LETTER_BYTES, letters[LETTER_BYTES]), output_bytes_max(endpoint, settings)
        ),
    }
