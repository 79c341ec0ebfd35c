"""A range of a topic as Arrow batches, read by one consumer on the caller's thread.

All partitions are read side by side by the one consumer: librdkafka fetches and decompresses on threads of
its own, and Python makes messages on one thread at a time, so a second consumer would gain nothing.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING, Self, cast

import pyarrow as pa

from ehkafka.arrow.ends import Ends
from ehkafka.arrow.header_texts import as_texts
from ehkafka.errors import ConfigurationError
from ehkafka.ranges.anew import id_replaced
from ehkafka.ranges.batches import arrow_schema, record_batches
from ehkafka.ranges.client import opened
from ehkafka.ranges.log_ids import LogIds
from ehkafka.ranges.loss import logs_replaced
from ehkafka.ranges.offset_text import is_sayable
from ehkafka.ranges.places import pieces_between
from ehkafka.ranges.reading import messages

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from confluent_kafka import Message

    from ehkafka.arrow.options import ReadOptions
    from ehkafka.arrow.planning import PlannedRange
    from ehkafka.ranges.offset_text import Positions
    from ehkafka.ranges.places import Piece

    Lists = Generator[tuple[Piece, list[Message]], None, None]


class Reader:
    """The batches of one range, each of 20,000 rows or 16 MiB at most, or of one fetch that has more.

    Made by `read`. Read once, on one thread: asked for batches again after it was read to its end, failed or
    was closed, it raises `ConfigurationError`. A batch may have records of several partitions, each
    partition's in offset order. Iteration raises `EndpointError` where the broker gives nothing for
    `timeout_s` or a batch cannot be read, and `OffsetGapError` where records are gone; what was handed out
    before is good, and `ends` tells where to continue. `close`, or the end of a `with` block, ends the
    connection of a reader that was not read to its end.

    - `schema`: of every batch.
    - `starts`: by partition, the first offset that is read.
    - `stops`: by partition, the offset behind the last one. A log may have fewer records than offsets.
    - `ends`: by partition, the offset behind what the batches so far have covered: at first where reading
      began, at last where it ended. Partitions of an earlier reader's ends that are not read now keep theirs.
      `Ends.to_json` makes text of it for a file.
    """

    def __init__(self, options: ReadOptions, plan: PlannedRange) -> None:
        self._options = options
        self._plan = plan
        self._next = dict(plan.starts)
        self._witnesses = dict(plan.witnesses)
        self._decode = None
        if options.header_values != "raw":
            is_hubs = options.endpoint.is_event_hubs
            self._decode = partial(as_texts, mode=options.header_values, event_hubs=is_hubs)
        self.schema: pa.Schema = arrow_schema(options.columns, texts=self._decode is not None)
        self.starts: Mapping[int, int] = _by_number(plan.starts)
        self.stops: Mapping[int, int] = _by_number(plan.stops)
        self.ends = self._reached()
        self._batches = self._read()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if getgeneratorstate(self._batches) == GEN_CLOSED:
            raise ConfigurationError(
                f"This reader of topic {self._options.topic} has ended: a reader can be read only once. Call "
                f"read() again: with start=reader.starts for the same records, or with start=reader.ends "
                f"for the records after them."
            )
        return self._batches

    def table(self) -> pa.Table:
        """Read what is left into memory. An error hands nothing out, and leaves `ends` where it was."""
        before = self.ends
        try:
            return pa.Table.from_batches(list(self), schema=self.schema)
        except BaseException:
            self.ends = before
            raise

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the batches to another library (Polars, DuckDB, pandas), which reads them as it needs them."""
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """End the reading; nothing more is handed out."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _read(self) -> Generator[pa.RecordBatch, None, None]:
        options = self._options
        pieces = pieces_between(self._plan.starts, self._plan.stops)
        lists = cast("Lists", messages(options, pieces, opened(options)))
        with closing(lists):
            for batch in record_batches(options.columns, self._noted(lists), self._decode):
                self.ends = self._reached()
                yield batch
        if pieces:
            self._check_topic()
        self._next = dict(self._plan.stops)
        self.ends = self._reached()

    def _noted(self, lists: Lists) -> Lists:
        """Pass the lists on, and note each once it is in a batch: when the next one is asked for.

        `record_batches` hands a batch out before it takes the list that it has just asked for.
        """
        for piece, records in lists:
            last = records[-1] if records else None
            yield piece, records
            del records  # else two lists would be in memory at a time
            if last is not None:
                offset = last.offset() or 0
                self._next[piece.where] = offset + 1
                self._witnesses[piece.where] = (offset, last.timestamp()[1])

    def _reached(self) -> Ends:
        plan = self._plan
        witnesses = {} if plan.topic_id else {p: one for p, one in self._witnesses.items() if is_sayable(one)}
        reached = _by_number({**plan.others, **self._next})
        return Ends(self._options.topic, reached, plan.topic_id, witnesses)

    def _check_topic(self) -> None:
        """Refuse what was read of two topics of one name, where ids tell them apart."""
        options, topic, topic_id = self._options, self._options.topic, self._plan.topic_id
        if topic_id is None:
            return
        ids = LogIds(options)
        try:
            now = ids.now({topic: topic_id}).get(topic, topic_id)
        finally:
            ids.stop()
        if now != topic_id:
            lost = logs_replaced([id_replaced(topic, topic_id, now)], options.words)
            lost.settle(fail=options.fail_on_data_loss)


def _by_number(positions: Positions) -> dict[int, int]:
    return {partition.partition: at for partition, at in sorted(positions.items())}
