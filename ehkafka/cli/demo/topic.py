"""The demo's topic: starts our own broker with it, or on another makes it where it is missing.

Uses the plain admin client, once, on the main thread, before anything else runs. Never deletes or changes
a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import TopicPartition

from ehkafka.cli.demo.plan import PARTITIONS
from ehkafka.errors import EndpointError, TopicNotFoundError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from ehkafka.cli.demo.plan import DemoPlan

ANSWER_S: Final = 5.0


def log_ends(plan: DemoPlan) -> list[int]:
    """Return each partition's end of the log, in order. Raises `EndpointError`."""
    if plan.is_embedded:
        plan.endpoint.prepare_topics([plan.topic])
        return [0] * PARTITIONS
    # The errors that matter are raised below; the client's own log lines would only repeat them.
    admin = AdminClient({**plan.endpoint.client_properties(), "log_level": 0})
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
    except KafkaException as error:
        raise EndpointError(
            f"{plan.address} could not be reached within {ANSWER_S:.0f} s: {ended(error.args[0].str())} "
            "Check host, port and that a broker listens there; without --endpoint the demo brings its own."
        ) from error
    if plan.topic not in known:
        _create(admin, plan)
        return [0] * PARTITIONS
    return _ends(admin, plan.topic, len(known[plan.topic].partitions))


def _create(admin: AdminClient, plan: DemoPlan) -> None:
    topic = NewTopic(plan.topic, num_partitions=PARTITIONS)
    try:
        admin.create_topics([topic], operation_timeout=ANSWER_S)[plan.topic].result(ANSWER_S)
    except (KafkaException, TimeoutError) as error:
        text = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise TopicNotFoundError(
            f"There is no topic {plan.topic!r} on {plan.address}, and it could not be made: {ended(text)} "
            f"Create it with {PARTITIONS} partitions, or name another with --topic."
        ) from error
    typer.echo(
        f"Made the topic {plan.topic!r}, {PARTITIONS} partitions, on {plan.address}; it stays there.",
        err=True,
    )


def _ends(admin: AdminClient, topic: str, partitions: int) -> list[int]:
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}  # type: ignore[no-untyped-call]
    try:
        answers = admin.list_offsets(asked, request_timeout=ANSWER_S)
        found = {partition.partition: future.result().offset for partition, future in answers.items()}
    except KafkaException as error:
        raise EndpointError(
            f"The end of topic {topic!r} could not be read: {ended(error.args[0].str())} Check the rights."
        ) from error
    return [found[number] for number in range(partitions)]
