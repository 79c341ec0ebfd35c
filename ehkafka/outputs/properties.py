"""The properties of the producers of outputs and of `app.producer`: ours, and the app's `producer=`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.producer_id import STATISTICS_MS
from ehkafka.endpoint.properties import limits, refusals
from ehkafka.endpoint.properties.layers import LETTER_BYTES, letter_properties, producer_properties
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.properties.refusals import Owned, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.settings import Settings

# librdkafka's own default, below what a broker takes by its own.
KAFKA_OUTPUT_BYTES_MAX = 1_000_000
# All of a batch that is refused go alone.
BATCH_OUTPUTS_MAX = 1_000
# More than workers may put.
QUEUE_MESSAGES = 100_000
# As many as an idempotent producer may have on their way: a request is for one partition, so with one request
# at a time a round trip for each partition lies between two of one.
IN_FLIGHT_MAX = 5
# Java's default for the same, half of librdkafka's: who waits for an answer has one within two minutes.
MESSAGE_TIMEOUT_MS = 120_000
# librdkafka knows no others; the first one is what we set.
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
# How long a broker lets a transaction be open: after a kill the next owner's start waits for it.
TRANSACTION_TIMEOUT_DEFAULT_MS = 10_000
OURS = {
    "partitioner": "keys go where Java's producers send them",
    "message.timeout.ms": "how long app.producer tries; outputs have no such limit",
    "message.max.bytes": "what is larger is refused at once",
}
"""What we set unless the app does, and why."""

_TIMEOUT = "message.timeout.ms"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_QUEUE = "queue.buffering.max.messages"
_OWNED = (
    Owned(
        _IN_FLIGHT,
        value=IN_FLIGHT_MAX,
        reason="the engine owns it: of so many requests sequence numbers keep the order",
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
    """Return how large one output may be: the service's limit, or what `message.max.bytes` says.

    The app's property or the endpoint's: on Spark they are one.
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

    Raises `ConfigurationError` for what would break a promise, or what the service does not take.
    """
    asked = in_one_spelling(settings.producer, ORIGIN)
    for name, reason in _TAKEN.items():
        if name in asked:
            raise refusals.refusal(name, asked[name], reason, "Leave it out")
    refusals.check_owned(asked, _OWNED)
    if "partitioner" in asked and asked["partitioner"] not in PARTITIONERS:
        known = ", ".join(PARTITIONERS)
        raise refusals.refusal("partitioner", asked["partitioner"], "it is unknown", f"Choose one of {known}")
    if _TIMEOUT in asked and whole_number(_TIMEOUT, asked[_TIMEOUT]) <= 0:
        raise refusals.refusal(
            _TIMEOUT,
            asked[_TIMEOUT],
            "it is how long app.producer tries, and a message that it tries for ever has no result",
            f"Leave it out: we set {MESSAGE_TIMEOUT_MS}. Outputs have no such limit, whatever this says",
        )
    producer_properties(endpoint, asked, ORIGIN)
    return asked


def output_properties(endpoint: Endpoint, settings: Settings, *, at_once: bool = False) -> dict[str, Any]:
    """Return the properties of a producer of outputs and dead letters.

    `at_once`: an output waits for no company, because its key waits for it.

    A gapless producer ends with the first message that is refused: nothing that was put later goes out
    before that is decided. Messages never time out, so that nothing but a refusal ends it.
    """
    return {
        **({"linger.ms": 0} if at_once else {}),
        # Brokers refuse whole batches: all of one that is refused go alone.
        "batch.num.messages": BATCH_OUTPUTS_MAX,
        **_common(endpoint, settings),
        _TIMEOUT: 0,
        "enable.gapless.guarantee": True,
    }


def transactional_properties(endpoint: Endpoint, settings: Settings, transactional_id: str) -> dict[str, Any]:
    """Return the properties of the producer of transactions. Raises `ConfigurationError`.

    Its commit stands for all that was sent, so nothing but errors is reported.
    """
    common = _common(endpoint, settings)
    timeout_ms = whole_number(
        TRANSACTION_TIMEOUT_MS, common.get(TRANSACTION_TIMEOUT_MS, TRANSACTION_TIMEOUT_DEFAULT_MS)
    )
    return {
        **common,
        "transactional.id": transactional_id,
        TRANSACTION_TIMEOUT_MS: timeout_ms,
        # librdkafka takes no longer one.
        _TIMEOUT: timeout_ms,
        "delivery.report.only.error": True,
    }


def may_report_at_once(properties: Mapping[str, Any]) -> bool:
    """Tell whether the last message's report may stand for what was handed over before it to its partition.

    Not with what makes librdkafka give up one message and write the next one, or refuse a part of what it is
    given at once, nor where a key's messages go anywhere. Raises `ConfigurationError`.
    """
    gives_up = _GIVES_UP.intersection(properties) or properties["partitioner"] == "random"
    return not gives_up and whole_number(_QUEUE, properties[_QUEUE]) >= QUEUE_MESSAGES


def message_properties(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    """Return the properties of the producer behind `app.producer`, whose messages may time out.

    A gapless producer ends with a message that is refused, so that none of its key passes one that is to be
    sent again.
    """
    return {
        _TIMEOUT: MESSAGE_TIMEOUT_MS,
        **_common(endpoint, settings),
        "enable.gapless.guarantee": True,
    }


def message_timeout_s(settings: Settings) -> float:
    """Return for how long `app.producer` tries to deliver a message."""
    asked = in_one_spelling(settings.producer, ORIGIN)
    return whole_number(_TIMEOUT, asked.get(_TIMEOUT, MESSAGE_TIMEOUT_MS)) / 1000


def _common(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    asked = check_producer(endpoint, settings)
    return {
        # As Java's: keys meet those of its producers.
        "partitioner": PARTITIONERS[0],
        # What is on its way has a bound of ours, so this queue never decides.
        _QUEUE: QUEUE_MESSAGES,
        # Sequence numbers keep the order; the embedded broker does not look at them.
        _IN_FLIGHT: 1 if endpoint.is_embedded else IN_FLIGHT_MAX,
        **(letters := letter_properties(endpoint, settings.consumer)),
        **asked,
        # A dead letter may be as large as a received record.
        LETTER_BYTES: max(letters[LETTER_BYTES], output_bytes_max(endpoint, settings)),
    }
