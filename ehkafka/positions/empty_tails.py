"""Which logs have no record from an offset up to their end: compaction takes away the last ones, too.

No client tells of such a hole: its position stays before it, and nothing arrives. So another
consumer reads there, which joins no group and commits nothing. A log's tail is empty when fetches from
there were answered and brought nothing (`client_fetches`): neither a record nor anything that the client
could not parse. Never on the poll thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.positions.client_fetches import Silence
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from confluent_kafka import Consumer

    from ehkafka.positions.client_fetches import ClientFetches

READ_S: Final = 5.0
_POLL_S: Final = 0.1


class Tails(NamedTuple):
    """The result of reading `asked`, from one offset up to another; the rest was not known in time.

    `empty` have no record there, `full` have some. `broken` is the only log that was read, where it brought
    what the client could not parse, again and again, and nothing else: that is counted for all together.
    """

    asked: Mapping[TopicPartition, tuple[int, int]]
    empty: Collection[TopicPartition] = ()
    broken: Collection[TopicPartition] = ()
    full: Collection[TopicPartition] = ()


def empty_tails(
    consumer: Consumer,
    tails: Mapping[TopicPartition, tuple[int, int]],
    fetches: ClientFetches,
    timeout_s: float = READ_S,
    *,
    should_end: Callable[[], bool] = lambda: False,
) -> Tails:
    """Return the partitions without a record between these two offsets. Assigns the consumer.

    It must be new, and have the properties of `fetches`.
    """
    ends_s = time.monotonic() + timeout_s
    left = {partition: end for partition, (_begin, end) in tails.items()}
    consumer.assign([KafkaPartition(*partition, begin) for partition, (begin, _end) in tails.items()])
    empty, full = set[TopicPartition](), set[TopicPartition]()
    silence, seen, times = Silence(fetches), 0, 0
    while left and time.monotonic() < ends_s and not should_end():
        silent = [partition for partition, end in left.items() if silence.lasts(partition, end)]
        asked = len(left)
        messages = consumer.consume(asked, _POLL_S)
        for message in messages:
            # The end of a log, which this client tells as an error, is what we ask about. Any other error of
            # a partition says that there may be something: a batch that cannot be read is no empty tail.
            error = message.error()
            if error is None or error.code() != ClientCode.PARTITION_EOF:
                silence.begin_anew()
                partition = TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
                full |= {partition} if error is None else set()
                if left.pop(partition, None) is not None:
                    # A long log's answers are cut, which counts as unparsed.
                    consumer.pause([KafkaPartition(*partition)])
        if fetches.unparsed != seen:
            seen, times = fetches.unparsed, times + 1
        # A full hand may have left something behind.
        for partition in left.keys() & silent if len(messages) < asked else ():
            empty.add(partition)
            del left[partition]
    return Tails(tails, empty, set(left) if len(tails) == 1 and times > 1 else set(), full)
