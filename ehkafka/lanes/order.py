"""Order functions: which records must not overlap or swap.

An order function takes a record and returns a hashable key; records of equal keys go through one lane.
The four named ones are recognised by the dispatcher, which then asks librdkafka's message directly.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ehkafka.headers.partition_key import partition_key_bytes
from ehkafka.headers.taking import take_headers
from ehkafka.lanes.received import ReceivedMessage
from ehkafka.lanes.user_keys import UserKeys, users_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.records import Message, Record

Scope = Literal["partition", "handler"]
NullKey = Literal["spread", "partition"]
# Whether this thread, or task, is in a key's own `__str__`.
_is_asking: ContextVar[bool] = ContextVar("is_asking", default=False)
# In each key that is made here, so that no tuple of a user's equals it, whatever it has.
_OURS: Final = object()


class Apart(NamedTuple):
    """The key of a record that has a lane of its own."""

    topic: str
    partition: int
    offset: int
    made: object = _OURS


class PartitionWide(NamedTuple):
    """The key of a partition's records without a key."""

    topic: str
    partition: int
    made: object = _OURS


class KeyFailure(NamedTuple):
    """The order function raised, or what it returned cannot be hashed.

    A SystemExit and its like are kept as well: they stop the app as they do in a handler, by name.
    """

    error: BaseException
    made: object = _OURS

    def __hash__(self) -> int:
        return id(self.error)  # an exception need not be hashable: a dataclass is not


_OF_OURS: frozenset[type] = frozenset({Apart, PartitionWide, KeyFailure})


def by_key(record: Record | Message) -> Hashable:
    """Order by the record's key, else by the partition key of an AMQP producer.

    - `record` (required): a `Record`, or with `raw=True` confluent-kafka's message.
    """
    key = record.key()
    return _partition_key(record) if key is None else key


def by_partition(record: Record | Message) -> Hashable:
    """Order all records with the same partition number (of all topics, if the scope is the handler).

    Arguments are those of `by_key`.
    """
    return record.partition()


def by_topic_partition(record: Record | Message) -> Hashable:
    """Order all records of one partition of one topic.

    Arguments are those of `by_key`.
    """
    return (record.topic(), record.partition())


def unordered(record: Record | Message) -> Hashable:
    """Put every record into a lane of its own. Arguments are those of `by_key`."""
    return Apart(record.topic(), record.partition(), record.offset())


class KeyReader:
    """Reads the lane keys of a batch. Called by the poll thread, outside the lock."""

    def __init__(
        self,
        order_by: Callable[..., Hashable] = by_key,
        *,
        null_key: NullKey = "spread",
        wrap: Callable[[Message], object] | None = None,
    ) -> None:
        """`wrap` makes of a `Message` what a user's order function is given; None: the message itself."""
        self._order_by = order_by
        self._null_key: NullKey = null_key
        self._wrap = wrap
        self._users = UserKeys(_OF_OURS)

    @property
    def calls_user_code(self) -> bool:
        """Whether the order function is none of the four named ones."""
        return self._order_by not in (by_key, by_partition, by_topic_partition, unordered)

    def keys(self, messages: Sequence[Message]) -> list[Hashable]:
        """Return one lane key for each message, of whatever partitions; a `KeyFailure` where there is none.

        All code of the user's that makes, hashes and compares keys runs here and nowhere else.
        """
        if self._order_by is by_key:
            keys: list[Hashable] = [message.key() for message in messages]
            if None in keys:
                keys = [
                    self._null(message) if key is None else key
                    for key, message in zip(keys, messages, strict=True)
                ]
            return keys
        if not self.calls_user_code:
            return [self._order_by(message) for message in messages]
        return [self._users_key(message) for message in messages]

    def _users_key(self, message: Message) -> Hashable:
        try:
            key = self._asked(message) if self._wrap is None else self._order_by(self._wrap(message))
            return self._without_key(message) if key is None else self._users.stand_in(key)
        except BaseException as error:  # reported by `Failures`: the poll thread must not die of it
            return KeyFailure(error)

    def _asked(self, message: Message) -> Hashable:
        """Return what a function of messages says; one that sets something in them changes nothing."""
        received = ReceivedMessage(message)
        try:
            return self._order_by(message)
        finally:
            if received.has_changed():
                received.restore()

    def _null(self, message: Message) -> Hashable:
        key = _partition_key(message)
        return self._without_key(message) if key is None else key

    def _without_key(self, message: Message) -> Hashable:
        if self._null_key == "spread":
            return unordered(message)
        return PartitionWide(message.topic(), message.partition())


def describe_key(key: Hashable) -> str:
    """Return a short readable form of a lane key for logs, errors and pages. Never under a lock.

    It may run code of the user's.
    """
    key = users_key(key)
    if isinstance(key, bytes):
        try:
            text = key.decode()
        except UnicodeDecodeError:
            text = f"0x{key.hex()}"
        else:
            text = text if text.isprintable() else repr(text)
    elif isinstance(key, Apart):
        text = "(no key)"
    elif isinstance(key, PartitionWide):
        text = "(all without key)"
    elif isinstance(key, KeyFailure):
        text = "(order_by failed)"
    else:
        text = _text_of(key)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _text_of(key: Hashable) -> str:
    """Return what a key of the user's own class says of itself, or the class's name where it cannot.

    A key that looks at the app would be asked for its text by that look, and so on until the stack is full:
    an error that then strikes the engine in the midst of its bookkeeping, and a record is never seen again.
    """
    if _is_asking.get():
        return f"<{type(key).__name__}>"
    token = _is_asking.set(True)
    try:
        return str(key)
    except Exception:  # the user's own class; a log line must not end the app
        return f"<{type(key).__name__}>"
    finally:
        _is_asking.reset(token)


def _partition_key(record: Record | Message) -> bytes | None:
    # Decoded: an AMQP string and plain UTF-8 of one key share a lane.
    return partition_key_bytes(take_headers(record))
