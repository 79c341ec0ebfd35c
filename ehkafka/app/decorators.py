"""What an app's decorators take and return, as type checkers see it.

A handler with a wrong signature is an error in the editor; what is decorated keeps its own type. Never
imported when a program runs: the registration checks there what is given to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError
    from confluent_kafka import Message as KafkaMessage

    from ehkafka.records import Record, TopicPartition
    from ehkafka.records.batch import Batch


class TakesRecord(Protocol):
    """An instance of a class handler, of records or of their payloads, which may be of any type."""

    def process(self, record: Any, /) -> object:
        """Handle one record."""
        ...


class TakesRecordFirst(Protocol):
    """An instance of a class handler that is given both."""

    def process(self, record: Record, payload: Any, /) -> object:
        """Handle one record."""
        ...


class TakesRecordLast(Protocol):
    """The same the other way round."""

    def process(self, payload: Any, record: Record, /) -> object:
        """Handle one record."""
        ...


class TakesMessage(Protocol):
    """An instance of a class handler that is given confluent-kafka's messages."""

    def process(self, message: KafkaMessage, /) -> object:
        """Handle one message."""
        ...


class TakesBatch(Protocol):
    """An instance of a class handler of batches."""

    def process(self, batch: Batch[Any], /) -> object:
        """Handle some records at once."""
        ...


# A class is called without arguments, once for each partition.
RecordClass = TypeVar("RecordClass", bound="Callable[[], TakesRecord | TakesRecordFirst | TakesRecordLast]")
RecordFunction = TypeVar(
    "RecordFunction",
    bound="Callable[[Any], object] | Callable[[Record, Any], object] | Callable[[Any, Record], object]",
)
MessageClass = TypeVar("MessageClass", bound="Callable[[], TakesMessage]")
MessageFunction = TypeVar("MessageFunction", bound="Callable[[KafkaMessage], object]")
BatchClass = TypeVar("BatchClass", bound="Callable[[], TakesBatch]")
BatchFunction = TypeVar("BatchFunction", bound="Callable[[Batch[Any]], object]")


class HandlerDecorator(Protocol):
    """Takes a function `(record)`, `(payload)` or of both, or a class with such a `process`; `async`, too."""

    @overload
    def __call__(self, function: RecordClass, /) -> RecordClass: ...
    @overload
    def __call__(self, function: RecordFunction, /) -> RecordFunction: ...


class RawHandlerDecorator(Protocol):
    """Takes a function `(message)`, plain or `async def`, or a class with `process(message)`."""

    @overload
    def __call__(self, function: MessageClass, /) -> MessageClass: ...
    @overload
    def __call__(self, function: MessageFunction, /) -> MessageFunction: ...


class BatchHandlerDecorator(Protocol):
    """Takes a function `(batch)`, plain or `async def`, or a class with `process(batch)`."""

    @overload
    def __call__(self, function: BatchClass, /) -> BatchClass: ...
    @overload
    def __call__(self, function: BatchFunction, /) -> BatchFunction: ...


# What `App.use` and the hooks take.
Middleware = TypeVar("Middleware", bound="Callable[[Any, Callable[[Any], Any]], object]")
Hook = TypeVar("Hook", bound="Callable[[], object]")
PartitionHook = TypeVar("PartitionHook", bound="Callable[[TopicPartition], object]")
RevokeHook = TypeVar("RevokeHook", bound="Callable[[TopicPartition, Literal['revoked', 'stopped']], object]")
ErrorHook = TypeVar("ErrorHook", bound="OnError")


class OnError(Protocol):
    """A function that hears of errors; its parameters may have any names."""

    def __call__(
        self,
        kind: Literal["handler", "connection"],
        partition: TopicPartition | None,
        record: Record | None,
        error: Exception | KafkaError,
        /,
    ) -> str | None:
        """Answer `"continue"`, `"stop"`, or None to leave the decision to `on_failure`."""
        ...
