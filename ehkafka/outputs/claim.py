"""A claim: the records that a call handles, and the outputs it made of them.

Made by the worker before the call. The counts are written under the book's lock; `is_over` by whoever ends
the call, on its worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ehkafka.outputs.checked import ANY_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.answered import Answered
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records.deferral import Deferred


class Claim:
    """One call of a handler. `inputs` are the epoch and the offset of each record that it was given.

    There are as many as records on their way, and each object that Python's garbage collector follows makes
    it run earlier: of one record alone the two are kept without the tuples around them.
    """

    __slots__ = (
        "_epoch",
        "_offset",
        "_places",
        "_several",
        "acknowledged",
        "attempt",
        "batch",
        "failed_homes",
        "has_failed",
        "is_before_next",
        "is_over",
        "messages",
        "on_refused",
        "on_settled",
        "outlet",
        "posted",
        "token",
        "unsettled",
    )

    def __init__(
        self, outlet: Outlet, inputs: tuple[tuple[Epoch, int], ...], messages: Any, attempt: int
    ) -> None:
        self.outlet = outlet
        self._epoch, self._offset = inputs[0]
        self._several = inputs if len(inputs) > 1 else None
        self.messages = messages
        self.attempt = attempt
        # What a batch handler was given, which its results are known by.
        self.batch: object = None
        # Where each of several messages stands, by its `id`; made when it is first asked for.
        self._places: dict[int, int] | None = None
        # Outputs that were posted; of these, acknowledged; and neither acknowledged nor given up.
        self.posted = 0
        self.acknowledged = 0
        self.unsettled = 0
        # The call has returned or raised, and its record is not deferred.
        self.is_over = False
        # The call has raised; and whether the key's next record waits for the outputs.
        self.has_failed = False
        # Which of several records have failed though the call has not.
        self.failed_homes: frozenset[int] = frozenset()
        self.is_before_next = False
        self.token: Deferred | None = None
        # Whoever waits for the outputs, where the key's next record does.
        self.on_settled: Callable[[], object] | None = None
        self.on_refused: Callable[[BaseException], object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Note how the call has ended."""
        if error is None:
            self.outlet.returned(self)
        else:
            self.outlet.failed(self)

    @property
    def inputs(self) -> tuple[tuple[Epoch, int], ...]:
        """Each record's epoch and offset."""
        return ((self._epoch, self._offset),) if self._several is None else self._several

    @property
    def has_ended(self) -> bool:
        """Tell whether a record of it belongs to another epoch by now, so that nothing may be sent for it."""
        if self._several is None:
            return self._epoch.ended
        return any(epoch.ended for epoch, _ in self._several)

    @property
    def is_gone(self) -> bool:
        """Tell whether all its records belong to other epochs by now."""
        return all(epoch.ended for epoch, _ in self.inputs)

    def home_of(self, message: Any) -> int | None:
        """Return which of several records one is; None where there is one, and for all of them."""
        if not isinstance(self.messages, list):
            return None
        if self._places is None:
            # Asked for each output of a batch, of which there may be ten thousand.
            self._places = {id(one): number for number, one in enumerate(self.messages)}
        return self._places.get(id(message))

    def homes(self, home: int | None) -> list[tuple[Epoch, Any]]:
        """Return the epochs and messages of the records that an output is of: one, or all."""
        messages = self.messages if isinstance(self.messages, list) else [self.messages]
        pairs = [(epoch, message) for (epoch, _), message in zip(self.inputs, messages, strict=True)]
        return pairs if home is None else [pairs[home]]

    @property
    def where(self) -> str:
        """The first record, for messages."""
        return f"{self._epoch.partition}@{self._offset}"


class Output:
    """One message on its way. Written by its worker until it is in the book, then by the sender's thread.

    `is_dropped` is set under the book's lock when its epoch ends, or by the sender when its attempt fails
    with an earlier output: then nobody sends it any more.
    """

    __slots__ = (
        "answered",
        "claim",
        "headers",
        "home",
        "is_dropped",
        "is_first",
        "is_suspect",
        "key",
        "partition",
        "serial",
        "size",
        "topic",
        "value",
        "written_to",
    )

    def __init__(
        self,
        claim: Claim,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Any,
        partition: int,
        size: int,
        home: int | None = None,
    ) -> None:
        """`home` says which of the call's records it is of, where there are several; None: of all."""
        self.claim = claim
        self.home = home
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.partition = partition
        self.size = size
        self.serial = -1
        self.is_dropped = False
        # It was in a batch that the broker has refused: it goes alone, or it could have others refused again.
        self.is_suspect = False
        # It is the first one of its key that a producer has; and the partition that it was written to then.
        self.is_first = False
        self.written_to = ANY_PARTITION
        # Where the producer's answer goes; see `delivered`. Set by the sender as it hands the output over.
        self.answered: Answered | None = None

    @property
    def group(self) -> tuple[str, object] | None:
        """Whose order it keeps: outputs of one group go out as they were made. None: it stands alone."""
        if self.partition >= 0:
            return self.topic, self.partition
        return None if self.key is None else (self.topic, self.key)

    def groups(self) -> tuple[tuple[object, int], ...]:
        """Return its group and its serial number: a bundle has several."""
        return ((self.group, self.serial),)

    @property
    def place(self) -> tuple[Epoch, int]:
        """The epoch and the offset of its record; of the first one, where it is of several."""
        return self.claim.inputs[self.home or 0]

    @property
    def has_ended(self) -> bool:
        """Tell whether all that it is of belongs to other epochs by now, so that it must not be sent."""
        return self.claim.is_gone if self.home is None else self.place[0].ended

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        """Take the broker's answer. Called by librdkafka inside `poll`, on the sender's thread.

        The output is its own callback: a bound method would be one object more for each.
        """
        answered = self.answered
        assert answered is not None
        if error is None and self.is_first:
            self.written_to = message.partition()
        if error is None and answered.is_plain and message.offset() is not None:
            answered.safe.append(self)
        else:
            answered.is_plain = False
            answered.others.append((self, error, message.offset()))


class SingleOutput(Output):
    """The one output of a call for one record, which sent nothing else: as nearly all are.

    Its claim is made when somebody asks for it: there are as many outputs as records on their way, and each
    object that Python's garbage collector follows makes it run earlier.
    """

    __slots__ = ("_made", "epoch", "message", "outlet")

    def __init__(
        self,
        outlet: Outlet,
        epoch: Epoch,
        message: Any,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Any,
        size: int,
        *,
        serial: int = -1,
    ) -> None:
        self.outlet = outlet
        self.epoch = epoch
        self.message = message
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.size = size
        self.partition = self.written_to = ANY_PARTITION
        self.serial = serial
        self.is_dropped = self.is_suspect = self.is_first = False
        self._made: Claim | None = None

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        """The call that made it, which has returned by the time that anybody asks."""
        if self._made is None:
            made = Claim(self.outlet, ((self.epoch, self.message.offset()),), self.message, 1)
            made.is_over = True
            made.posted = made.unsettled = 1
            self._made = made
        return self._made

    @property
    def home(self) -> None:  # type: ignore[override]
        """None: it is of its call's one record."""
        return

    @property
    def has_ended(self) -> bool:
        """Tell whether its record belongs to another epoch by now, so that it must not be sent."""
        return self.epoch.ended

    @property
    def where(self) -> str:
        """Its record, for messages."""
        return f"{self.epoch.partition}@{self.message.offset()}"
