"""`read`: checks its arguments, plans, and returns a `Reader`."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

from ehkafka.arrow.options import ReadOptions
from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.ranges.options import TIMEOUT_S, WITHOUT_HEADERS, chosen_columns
from ehkafka.records import TopicPartition
from ehkafka.settings.secret import quoted
from ehkafka.wording.calling import is_topic_name, must_be_endpoint, plainly
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ehkafka.arrow.places import Where
    from ehkafka.arrow.reader import Reader
    from ehkafka.endpoint import Endpoint
    from ehkafka.headers import HeaderMode

_HEADER_MODES: Final = ("raw", "amqp", "auto")


@plainly
def read(
    endpoint: Endpoint,
    topic: str,
    *,
    start: Where,
    end: Where = "now",
    columns: Sequence[str] | None = None,
    partitions: Collection[int] | None = None,
    header_values: HeaderMode = "raw",
    on_loss: Literal["raise", "warn"] = "raise",
    timeout_s: float = TIMEOUT_S,
) -> Reader:
    """Return a reader of the records from `start` to before `end`, as Arrow batches.

    Joins no group and commits nothing: what a program has done with the batches is its own to keep. For work
    that must be resumed after a crash without a gap, use an `App`, or keep `Reader.ends` together with the
    result.

    - `endpoint` (required): the broker.
    - `topic` (required): its name.
    - `start` (required): where to begin. `"earliest"`; `"latest"` or `"now"` (where the logs end when this is
      called); a time, as an aware datetime or as text with its zone (`"2026-01-01T00:00:00Z"`), for the first
      record of that time or later; a `timedelta`, to go back from now; an offset, for every partition; a
      mapping of partitions to offsets, which names each partition that is read; or the `Ends` of an earlier
      reader: partitions that were added since begin with their logs.
    - `end` (default `"now"`): where to end, in the same forms; the record there is not read. An end in the
      future is the log's end of now: no reader waits for records that do not exist yet.
    - `columns` (default `None`): the names of those to read, in any case. Fewer are faster. None: all but
      `headers`.
    - `partitions` (default `None`): the numbers of those to read. None: all.
    - `header_values` (default `"raw"`): bytes as they are, or `"amqp"` or `"auto"` to decode them into text,
      as `ehkafka.headers.modes` explains.
    - `on_loss` (default `"raise"`): what becomes of records that are gone (retention, a log that was cut, a
      topic that was recreated): `"raise"`, or `"warn"` to log them once and continue behind them.
    - `timeout_s` (seconds, default `120.0`): how long the reader waits for records that must be there. One
      question to the broker takes 30 s at most.

    Raises `ConfigurationError` for arguments that are wrong, `MissingExtraError` without pyarrow,
    `TopicNotFoundError`, `EndpointError` and `OffsetGapError`, all of them before anything is read.
    """
    must_be_endpoint(endpoint)
    if not is_topic_name(topic):
        raise ConfigurationError(f"topic={quoted(topic)} is not a topic's name.")
    if on_loss not in {"raise", "warn"}:
        raise ConfigurationError(f"on_loss={quoted(on_loss)} is not known: give 'raise' or 'warn'.")
    if header_values not in _HEADER_MODES:
        known = ", ".join(map(repr, _HEADER_MODES))
        raise ConfigurationError(f"header_values={quoted(header_values)} is not known: give one of {known}.")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < inf:
        raise ConfigurationError(f"timeout_s={quoted(timeout_s)} is not a time: give more than 0 seconds.")
    options = ReadOptions(
        endpoint=endpoint,
        topic=topic,
        columns=columns_of(columns),
        assigned=partitions_of(topic, partitions),
        header_values=header_values,
        fail_on_data_loss=on_loss == "raise",
        timeout_s=timeout_s,
    )
    return opened(options, start, end)


def opened(options: ReadOptions, start: Where, end: Where) -> Reader:
    """Return the reader that these options ask for; see `read`."""
    try:
        from ehkafka.arrow.reader import Reader  # noqa: PLC0415 - the extra
    except ModuleNotFoundError as error:
        if error.name not in {"pyarrow", "numpy"}:
            raise
        raise MissingExtraError(f"Reading into Arrow needs pyarrow and NumPy: {install('arrow')}") from None
    from ehkafka.arrow.planning import plan  # noqa: PLC0415 - it loads what asks the broker

    return Reader(options, plan(options, start, end))


def columns_of(names: object) -> tuple[str, ...]:
    """Return the columns that a user names; None: all but headers. Raises `ConfigurationError`."""
    if names is None:
        return WITHOUT_HEADERS
    return chosen_columns(_listed("columns", names, str, "names, such as ['value']"))


def partitions_of(topic: str, numbers: object) -> tuple[TopicPartition, ...]:
    """Return the partitions that a user names; None: all, as no name. Raises `ConfigurationError`."""
    if numbers is None:
        return ()
    given = _listed("partitions", numbers, int, "the numbers of partitions, such as [0, 1]")
    return tuple(TopicPartition(topic, one) for one in sorted(set(given)))


def _listed(name: str, given: object, kind: type, forms: str) -> list[Any]:
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    if not found or not all(type(one) is kind for one in found):
        raise ConfigurationError(f"{name}={quoted(given)} is not understood: give {forms}.")
    return found
