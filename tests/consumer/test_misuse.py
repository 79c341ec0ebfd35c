"""Misuse that confluent-kafka answers by ending the process, or that `contiguous=True` alone can meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("group", ["", None])
def test_a_group_without_a_name_is_refused(group: str | None) -> None:
    """confluent-kafka aborts the process."""
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        ehkafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group})


def test_a_message_without_a_topic_is_not_committed(open_consumer: Callable[..., ehkafka.Consumer]) -> None:
    """confluent-kafka crashes."""
    noted: list[KafkaError] = []
    consumer = open_consumer(enable_auto_commit=False, on_commit=lambda error, _parts: noted.append(error))
    message = Message(partition=0, offset=3)
    with pytest.raises(KafkaException, match="No offset stored"):
        consumer.commit(message, asynchronous=False)
    consumer.commit(message)
    consumer.poll(0)
    assert [error.code() for error in noted] == [KafkaError._NO_OFFSET]


@pytest.mark.parametrize("wrong", ["0", None, [None], ["0"], 1])
def test_contiguous_refuses_what_is_no_list_of_partitions(
    open_consumer: Callable[..., ehkafka.Consumer], wrong: Any
) -> None:
    """By confluent-kafka's words, in each method that looks at its partitions itself."""
    consumer = open_consumer({"contiguous": True}, enable_auto_commit=False)
    for method in (consumer.pause, consumer.resume, consumer.assign, consumer.incremental_unassign):
        with pytest.raises(TypeError, match="TopicPartition"):
            method(wrong)
