"""Step `auth`: whether the broker accepts the credential and answers the client's first request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from ehkafka.checks.finding import SETTINGS_CODE, Finding, Trouble
from ehkafka.checks.inspection import trouble
from ehkafka.endpoint.broker_errors import EXPLAINING
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from ehkafka.checks.inspection import Inspection

# A request that waits for a connection hears nothing of why there is none: ask in growing slices.
FIRST_SLICE_S = 0.25
_REFUSED_FIX = (
    "The broker did not take the token: check that it is for this namespace (audience), not expired, this"
    " machine's clock right, and the identity's role Azure Event Hubs Data Receiver."
)


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Open the client and ask for the cluster's metadata."""
    try:
        consumer = inspection.consumer()
    except ConfigurationError as error:
        raise Trouble(str(error), "Correct it; the app would not start.", exit_code=SETTINGS_CODE) from None
    began_s = time.monotonic()
    inspection.cluster = cluster = _metadata(inspection, consumer)
    took_s = time.monotonic() - began_s
    how = f"{inspection.mechanism} accepted" if inspection.mechanism else "the broker asks for none"
    brokers, topics = len(cluster.brokers), len(cluster.topics)
    return Finding(
        f"{how}; {_count(brokers, 'broker')}, {_count(topics, 'topic')} to be seen",
        {
            "mechanism": inspection.mechanism,
            "brokers": brokers,
            "topics": topics,
            "answered_s": round(took_s, 4),
        },
    )


def _metadata(inspection: Inspection, consumer: Consumer) -> ClusterMetadata:
    """Ask until the step's time is up, or a reason is heard that waiting does not fix."""
    slice_s = FIRST_SLICE_S
    while True:
        try:
            found: ClusterMetadata = consumer.list_topics(timeout=min(slice_s, inspection.remaining_s))
        except KafkaException as error:
            refusal = error.args[0]
        else:
            return found
        inspection.listen(consumer, 0.0)
        reason = _reason(inspection.heard)
        # With several addresses another one may still do.
        if inspection.is_over or (reason is not None and len(inspection.addresses) == 1):
            raise _refused(inspection, reason, refusal)
        slice_s *= 2


def _reason(heard: list[KafkaError]) -> KafkaError | None:
    return next((error for error in heard if error.code() in EXPLAINING), None)


def _refused(inspection: Inspection, reason: KafkaError | None, refusal: KafkaError) -> Trouble:
    if reason is None and not inspection.is_kafka_there:
        return _unreachable(inspection, refusal)
    if reason is None:
        return Trouble(
            f"a Kafka broker is there, but does not answer this client: {refusal.name()} ({refusal.str()})",
            f"It may ask for another way in than security.protocol={inspection.protocol}"
            f" and sasl.mechanisms={inspection.mechanism or 'none'}: correct them.",
        )
    what = f"{inspection.mechanism} was refused" if inspection.mechanism else "the client cannot connect"
    found = trouble(what, reason)
    if inspection.mechanism == "OAUTHBEARER" and reason.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
        found.fix = _REFUSED_FIX
    return found


def _unreachable(inspection: Inspection, refusal: KafkaError) -> Trouble:
    # Why is told beside the request, which only says that time ran out.
    broken = (error for error in inspection.heard if error.code() == KafkaError._TRANSPORT)  # noqa: SLF001
    said = next(broken, refusal)
    addresses = ", ".join(inspection.addresses)
    return Trouble(
        f"{addresses} cannot be reached, or does not answer this client: {said.name()} ({said.str()})",
        "Run: ehkafka check. It goes the way step by step and says where it ends.",
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
