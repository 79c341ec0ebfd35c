"""Dead letters that are written home: one output for each, by the sender that handlers' outputs have.

A dead letter stays with the sender until the broker has acknowledged it, over as many producers as that
takes. So it may be written twice, but is never left out before a later one of its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.properties.layers import LETTER_BYTES, letter_properties
from ehkafka.errors import EndpointError
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.output import Source, size_of
from ehkafka.outputs.sender import OutputSender
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.records import TopicPartition
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.checks.target import Target
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.outputs.output import Answer, Output, OutputRefusedError
    from ehkafka.records import Record
    from ehkafka.recovery.letters.letter import Headers

IN_FLIGHT_MAX = 5_000
# So many producers, or refusals of one dead letter, in a row, over half a minute: a person has to look.
REPLACED_MAX = 5
# Between a refusal and the next try; twice as long after each.
AGAIN_S = 1.0
EXIT_S = 10.0
# Another try or another producer would hear the same.
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
}


class Homecoming(Source):
    """One dead letter whose record is sent home."""

    orders_partition = True
    home: TopicPartition
    on_safe: Callable[[Homecoming], None]
    # Set by the sender's thread.
    is_safe = False

    @property
    def letter(self) -> Record:
        """The dead letter."""
        letter: Record = self[MESSAGE]
        return letter

    def acknowledged(self) -> None:
        """Note that it is safe at home."""
        self.on_safe(self)
        self.is_safe = True


class WayHome:
    """`start`, `send` …, `stop`: on the redrive's thread. The sender has its own."""

    def __init__(self, target: Target, on_safe: Callable[[Homecoming], None]) -> None:
        """`on_safe` hears of each that is safe at home, on the sender's thread."""
        self._target = target
        self._on_safe = on_safe
        self._outputs = Unacknowledged(IN_FLIGHT_MAX)
        # The sender's, and from the first refusal on its second one.
        self._producers: list[OneProducer] = []
        self._sender = OutputSender(
            self._outputs,
            self._make_producer(),
            lambda: self._make_producer(is_second=True),
            emit=lambda _event: None,
            on_death=self._end_with,
            busy=busy_codes(is_event_hubs=target.endpoint.is_event_hubs),
            # Each is committed for itself; without ids they are sent one by one, too.
            at_once=False,
        )
        # Of no assignment: it ends with the redrive.
        self._epoch = Epoch(TopicPartition("", 0), 0, {})
        # What no waiting fixes. Set on the sender's thread.
        self._problem: BaseException | None = None

    def _make_producer(self, *, is_second: bool = False) -> OneProducer:
        def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
            properties = letter_properties(self._target.endpoint, self._target.consumer, is_plain=is_plain)
            if is_second:
                properties["batch.num.messages"] = 1
            elif not is_plain:
                properties["enable.gapless.guarantee"] = True
            return open_producer(properties, **callbacks._asdict())

        self._producers.append(OneProducer(open_client, emit=lambda _event: None))
        return self._producers[-1]

    def start(self) -> None:
        """Open the producer and wait for its id. Raises `EhkafkaError` for what is refused."""
        self._sender.start()

    def send(self, record: Record, headers: Headers, home: TopicPartition) -> Homecoming:
        """Send one dead letter's record home."""
        source = Homecoming((record, record.key(), 0, self._epoch))
        source.home, source.on_safe = home, self._on_safe
        output = (self, source, home.topic, record.value(), record.key(), headers, home.partition)
        self._outputs.put(source, output, size_of(output), waits=False)
        return source

    def has_room(self) -> bool:
        """Tell whether another dead letter may be sent; without producer ids, one at a time."""
        return self.is_empty() if self._producers[0].is_plain else self._outputs.has_room()

    def is_empty(self) -> bool:
        """Tell whether all that was sent is safe."""
        return not self._outputs.count()

    def check(self, oldest: Homecoming) -> None:
        """Raise what no waiting fixes; `oldest` is not safe yet while all below it in its partition are."""
        if self._problem is not None:
            raise self._problem
        for producer in self._producers:
            if producer.replaced > REPLACED_MAX:
                tried = f", whichever of {producer.replaced} producers tried: {ended(str(producer.problem))}"
                raise _not_written(oldest, tried)

    def judge(self, output: Output, error: OutputRefusedError, tries: int, answer: Answer) -> None:
        """Try a refused one later, or never: then all behind it in its partition stays, too."""
        is_hopeless = error.is_too_large or error.is_for_good or error.code in _HOPELESS
        if not is_hopeless and tries <= REPLACED_MAX:
            answer(AGAIN_S * (1 << (tries - 1)))
            return
        assert isinstance(output.source, Homecoming)
        advice = f" If the service takes larger records, raise {LETTER_BYTES}." if error.is_too_large else ""
        self._end_with(_not_written(output.source, f": {ended(str(error))}{advice}"))

    def _end_with(self, problem: BaseException) -> None:
        self._problem = problem

    def stop(self) -> None:
        """Take back what is not answered within a bound."""
        self._epoch.ended = True
        self._sender.end(EXIT_S)
        self._sender.stop(0.0)


def _not_written(one: Homecoming, why: str) -> EndpointError:
    return EndpointError(
        f"The letter {one.letter.partition()}@{one.letter.offset()} could not be written to {one.home}{why} "
        "All before it is safe; start the redrive again to continue with it."
    )
