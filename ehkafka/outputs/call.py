"""One call of a handler, and its outputs so far: they are put when the call ends, and dropped if it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.encoding import CALL_BYTES_MAX, sends_too_much
from ehkafka.outputs.output import BatchSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.encoding import Made
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records.deferral import Deferred


class Call:
    """A call for one record or for a batch. Its worker writes, and so do threads that the handler started."""

    __slots__ = ("_places", "batch", "dropped", "entries", "is_over", "made", "outlet", "size", "token")

    def __init__(self, outlet: Outlet, entries: Sequence[Entry], batch: object = None) -> None:
        """`batch` is the argument of a batch handler: the results of the call name it."""
        self.outlet = outlet
        self.entries = entries
        self.batch = batch
        # Each message, with the place of its record in `entries`; None: it belongs to the whole batch.
        self.made: list[tuple[Made, int | None]] = []
        self.size = 0
        # The call takes no more outputs. Under its outlet's lock.
        self.is_over = False
        # Places of the batch's records that failed or are skipped: their outputs are dropped.
        self.dropped: Collection[int] = ()
        # Its record is deferred: the call may send until the token is answered.
        self.token: Deferred | None = None
        # The place of each message of a batch, by its `id`; made when it is first needed.
        self._places: dict[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Note how the call has ended."""
        if error is None:
            self.outlet.returned(self)
        else:
            self.outlet.close(self)

    @property
    def message(self) -> Any:
        """The message of its record, or its batch: the outlet finds the call by it."""
        return self.entries[0][MESSAGE] if self.batch is None else self.batch

    @property
    def places(self) -> Iterator[int]:
        """Where its outlet finds it: the `id` of each message, and of its batch."""
        yield from (id(entry[MESSAGE]) for entry in self.entries)
        if self.batch is not None:
            yield id(self.batch)

    @property
    def where(self) -> str:
        """Its first record, as error messages name it."""
        entry = self.entries[0]
        return f"{entry[EPOCH].partition}@{entry[MESSAGE].offset()}"

    def add(self, made: Sequence[Made], message: object) -> None:
        """Keep the messages of a record, or of the batch. Raises `ValueError` if the call sends too much.

        The caller holds the outlet's lock if another thread may end the call.
        """
        self.size += sum([one[5] for one in made])
        if self.size > CALL_BYTES_MAX:
            raise sends_too_much(self.where, self.size)
        place = 0 if self.batch is None else self._place_of(message)
        self.made += [(one, place) for one in made]

    def _place_of(self, message: object) -> int | None:
        if self._places is None:
            # This is needed for each output of a batch, and there may be ten thousand.
            self._places = {id(entry[MESSAGE]): place for place, entry in enumerate(self.entries)}
        return self._places.get(id(message))

    def put(self, *, source: Any = None, waits: bool = True) -> None:
        """Put its outputs, in the order of sending. Raises `NotSentError` if its epoch has ended."""
        whole = source or (BatchSource(self.entries) if self.batch is not None else self.entries[0])
        flat: list[Any] = []
        for made, place in self.made:
            if place is None or place not in self.dropped:
                its_source = whole if place is None or self.batch is None else self.entries[place]
                flat += self.outlet.flat(its_source, made)
        self.made = []
        if flat:
            self.outlet.outputs.put(whole, flat, self.size, waits=waits)
