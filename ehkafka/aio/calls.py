"""What an asyncio consumer can be asked, as type checkers are to see it: confluent-kafka takes `*args: Any`.

When a program runs, this class adds nothing: all is done by confluent-kafka's own methods.
"""

# ruff: noqa: ASYNC109 - confluent-kafka's names

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.aio import AIOConsumer as KafkaAIOConsumer

if TYPE_CHECKING:
    from typing import Literal, overload

    from confluent_kafka import Message
    from confluent_kafka import TopicPartition as KafkaPartition

    Partitions = list[KafkaPartition]


class Calls(KafkaAIOConsumer):
    """What is awaited as it is called in `ehkafka.Consumer`."""

    if TYPE_CHECKING:

        @overload
        async def commit(
            self,
            message: Message | None = ...,
            offsets: Partitions | None = ...,
            asynchronous: Literal[True] = ...,
        ) -> None: ...
        @overload
        async def commit(
            self,
            message: Message | None = ...,
            offsets: Partitions | None = ...,
            *,
            asynchronous: Literal[False],
        ) -> Partitions: ...
        async def commit(self, *args: object, **kwargs: object) -> Any:
            """See `confluent_kafka.Consumer.commit`."""

        async def store_offsets(
            self, message: Message | None = None, offsets: Partitions | None = None
        ) -> None:
            """See `confluent_kafka.Consumer.store_offsets`."""

        async def committed(self, partitions: Partitions, timeout: float = -1) -> Partitions:
            """See `confluent_kafka.Consumer.committed`."""

        async def position(self, partitions: Partitions) -> Partitions:
            """See `confluent_kafka.Consumer.position`."""

        async def assignment(self) -> Partitions:
            """See `confluent_kafka.Consumer.assignment`."""

        async def assign(self, partitions: Partitions) -> None:
            """See `confluent_kafka.Consumer.assign`."""

        async def unassign(self) -> None:
            """See `confluent_kafka.Consumer.unassign`."""

        async def incremental_assign(self, partitions: Partitions) -> None:
            """See `confluent_kafka.Consumer.incremental_assign`."""

        async def incremental_unassign(self, partitions: Partitions) -> None:
            """See `confluent_kafka.Consumer.incremental_unassign`."""

        async def unsubscribe(self) -> None:
            """See `confluent_kafka.Consumer.unsubscribe`."""

        async def seek(self, partition: KafkaPartition) -> None:
            """See `confluent_kafka.Consumer.seek`."""

        async def pause(self, partitions: Partitions) -> None:
            """See `confluent_kafka.Consumer.pause`."""

        async def resume(self, partitions: Partitions) -> None:
            """See `confluent_kafka.Consumer.resume`."""

        async def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
            """See `confluent_kafka.Consumer.list_topics`."""

        async def get_watermark_offsets(
            self,
            partition: KafkaPartition,
            timeout: float = -1,
            cached: bool = False,
        ) -> tuple[int, int]:
            """See `confluent_kafka.Consumer.get_watermark_offsets`."""

        async def offsets_for_times(self, partitions: Partitions, timeout: float = -1) -> Partitions:
            """See `confluent_kafka.Consumer.offsets_for_times`."""

        async def cluster_id(self, timeout: float = -1) -> str:
            """See `confluent_kafka.Consumer.cluster_id`."""

        async def consumer_group_metadata(self) -> Any:
            """See `confluent_kafka.Consumer.consumer_group_metadata`."""

        async def set_sasl_credentials(self, username: str, password: str) -> None:
            """See `confluent_kafka.Consumer.set_sasl_credentials`."""
