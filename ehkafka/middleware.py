"""Middleware for `App.use`: a log line for each attempt, and the base of the spans of `ehkafka.otel`.

Middleware runs around plain and `async def` handlers alike, on the worker that calls them. It passes on a
handler's error and its result unchanged, and never shows a value, a header or a key. For middleware, an
attempt whose record was deferred ends when the handler returns, as *deferred*.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.headers.taking import take_headers
from ehkafka.records import Record
from ehkafka.records.batch import Batch
from ehkafka.records.deferral import is_deferred
from ehkafka.records.signals import RecordSignal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

# What W3C Trace Context allows: version, trace id, parent id, flags. Later versions may add fields.
_IDS = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(-.*)?")
TRACESTATE_CHARACTERS_MAX = 512


def log_attempts(target: logging.Logger | str | None = None, level: int = logging.INFO) -> LogAttempts:
    """Log one line for each attempt: where, which attempt, how it ended, how long it took.

    The same is in the log record's fields (`topic`, `partition`, `offset`, `records`, `attempt`, `outcome`,
    `took_s`). Of a batch it is the first record's place, and how many `records` there are.

    - `target` (default `None`): a logger, or its name. None: `ehkafka.attempts`.
    - `level` (default `logging.INFO`): of the lines.

    Raises `ConfigurationError`.
    """
    if target is not None and not isinstance(target, logging.Logger | str):
        raise ConfigurationError(f"log_attempts({target!r}): give a logger, the name of a logger, or None.")
    if type(level) is not int or level < 0:
        raise ConfigurationError(f"log_attempts(level={level!r}): give a level, such as logging.DEBUG.")
    chosen = target if isinstance(target, logging.Logger) else logging.getLogger(target or "ehkafka.attempts")
    return LogAttempts(chosen, level)


class Around(ABC):
    """Middleware that is a context manager around each attempt."""

    @abstractmethod
    def around(self, record: Any) -> AbstractContextManager[None]:
        """Return what surrounds one attempt. It must let every error pass."""

    def __call__(self, record: Any, call_next: Callable[[Any], object]) -> object:
        """Go around a plain handler."""
        with self.around(record):
            return call_next(record)

    async def for_async(self, record: Any, call_next: Callable[[Any], Awaitable[object]]) -> object:
        """Go around an `async def` handler."""
        with self.around(record):
            return await call_next(record)


@dataclass(frozen=True)
class LogAttempts(Around):
    """What `log_attempts` returns."""

    logger: logging.Logger
    level: int

    @contextmanager
    def around(self, record: Any) -> Iterator[None]:
        """Log the attempt when it has ended."""
        if not self.logger.isEnabledFor(self.level):
            yield
            return
        started_s = time.perf_counter()
        outcome = "finished"
        try:
            yield
            if is_deferred(record):
                outcome = "deferred"
        except BaseException as error:
            outcome = _outcome_of(error)
            raise
        finally:
            self._log(record, outcome, time.perf_counter() - started_s)

    def _log(self, record: Any, outcome: str, took_s: float) -> None:
        records = 1
        if isinstance(record, Batch):
            record, records = record[0], len(record)
        # confluent's own message does not know its attempt.
        attempt = getattr(record, "attempt", None)
        where = f"{record.topic()}[{record.partition()}]@{record.offset()}"
        numbered = f"{where}, attempt {attempt}" if attempt is not None else where
        if records > 1:
            numbered = f"{records} records from {numbered}"
        extra = {
            "topic": record.topic(),
            "partition": record.partition(),
            "offset": record.offset(),
            "records": records,
            "attempt": attempt,
            "outcome": outcome,
            "took_s": took_s,
        }
        self.logger.log(self.level, "%s: %s after %.3f s.", numbered, outcome, took_s, extra=extra)


def _outcome_of(error: BaseException) -> str:
    # The error's text may hold values of the record; the engine's own line has it, where that is wanted.
    kind = type(error).__name__
    return f"answered {kind}" if isinstance(error, RecordSignal) else f"failed with {kind}"


def trace_context(record: Any) -> dict[str, str]:
    """Return a record's `traceparent` and `tracestate`, as far as they are valid.

    - `record` (required): a `Record`, or confluent-kafka's message. A batch has none of these.
    """
    if isinstance(record, Batch):
        return {}
    headers: dict[str, Any]
    headers = dict(record.properties) if isinstance(record, Record) else dict(take_headers(record))
    found = (_ascii(headers.get(name)) for name in ("traceparent", "Diagnostic-Id"))
    parent = next((text for text in found if _TRACEPARENT.fullmatch(text)), None)
    if parent is None:
        return {}
    state = _ascii(headers.get("tracestate"))
    fits = 0 < len(state) <= TRACESTATE_CHARACTERS_MAX and state.isprintable()
    return {"traceparent": parent, "tracestate": state} if fits else {"traceparent": parent}


def _ascii(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return value.strip() if isinstance(value, str) and value.isascii() else ""
