"""What one drop-in consumer is made of, and in which order its parts come up and end.

`Internals` is made before librdkafka's client exists, because its callbacks go into the client's properties;
`join` brings both together. Constructed and closed by the consumer, on its program's thread.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import Consumer as KafkaConsumer

from ehkafka.consumer.access import Access
from ehkafka.consumer.between_polls import Anew, Passed
from ehkafka.consumer.commit_sender import CommitSender
from ehkafka.consumer.deviations import ConsumerLog, Deviating
from ehkafka.consumer.ending import Callbacks
from ehkafka.consumer.log_guard import LogGuard
from ehkafka.consumer.marks import Marks
from ehkafka.consumer.mirrored import Mirrored
from ehkafka.consumer.positions import Returned, Stored
from ehkafka.consumer.program_settings import ProgramSettings, auto_commit_s
from ehkafka.endpoint.client import check_client_version
from ehkafka.endpoint.drop_in import check_drop_in, drop_in_properties, endpoint_of, with_servers
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.limits import COMMIT_INTERVAL_S_MIN
from ehkafka.endpoint.properties.setting_checks import is_true
from ehkafka.events import ConnectionProblem
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing
from ehkafka.settings.secret import HiddenProperties
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import KafkaError

    from ehkafka.consumer.commit_requests import Answer
    from ehkafka.records import TopicPartition

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
# How often a rotated key is looked for.
CREDENTIAL_CHECK_S = 1.0


class BareConsumer:
    """confluent-kafka's own methods of a consumer that overrides them.

    It keeps no consumer: with its program's last reference a consumer ends, its threads and sockets too.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer: Callable[[], KafkaConsumer | None] = weakref.ref(consumer)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._call, getattr(KafkaConsumer, name))

    def _call(self, method: Callable[..., object], *arguments: object, **named: object) -> Any:
        consumer = self.consumer()
        if consumer is None:
            raise RuntimeError("Consumer closed")  # as confluent-kafka says it
        return method(consumer, *arguments, **named)


class Internals:
    """What one consumer is made of."""

    # From `join` on.
    commits: CommitSender

    def __init__(self, config: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Take a program's properties and `own` options. Raises `ConfigurationError` for what cannot work."""
        asked = with_servers(config)
        check_drop_in(asked)
        self.log_lines = ConsumerLog()
        self.deviating = Deviating(self.log_lines.emit)
        contiguous = own.get("contiguous", False)
        self.program_settings = settings = ProgramSettings(
            auto_commit=is_true(asked.get("enable.auto.commit", True)),
            auto_commit_s=auto_commit_s(asked),
            auto_store=is_true(asked.get("enable.auto.offset.store", True)) and not contiguous,
            **own,
        )
        self.endpoint = endpoint_of(asked) if settings.endpoint is None else settings.endpoint
        self.is_event_hubs = self.endpoint is not None and self.endpoint.is_event_hubs
        self.callbacks = Callbacks(lambda: self.deviating.report("callbacks"))
        self.on_commit: Callable[..., Any] | None = None
        self.returned = Returned()
        self.log_guard = LogGuard(
            asked,
            self.returned,
            self.log_lines.emit,
            begins_anew=settings.contiguous or settings.mirror is not None,
        )
        self.mirror = Mirrored(
            settings.mirror, self.endpoint, asked, self.log_lines.emit, self.log_guard.asker
        )
        self.properties = self._properties(asked)
        self.stored = Stored()
        # What librdkafka has assigned. Replaced with the assignment; read by any thread: `assignment()` would
        # wait for the thread that polls, and perhaps for ever.
        self.held: frozenset[TopicPartition] = frozenset()
        # Answers that `on_commit` is still to hear, oldest first. Any thread appends, the polling one takes.
        self.answers: deque[Answer] = deque()
        self.access = Access()
        # When the next automatic commit is due, not counting those of a revoke and of the end.
        interval_s = settings.auto_commit_s if settings.auto_commit else None
        self._next_auto_s = float("inf") if interval_s is None else time.monotonic() + interval_s
        credential = self.endpoint.credential if self.endpoint is not None else None
        self.credential = CredentialWatch(credential, self.log_lines.emit)
        self._next_credential_check_s = 0.0 if credential is not None else float("inf")
        self.is_cooperative = (
            "cooperative" in str(asked.get("partition.assignment.strategy"))
            or str(asked.get("group.protocol")).lower() == "consumer"
        )
        # When the polling thread has something to look after.
        self.next_check_s = 0.0
        self.has_checks = settings.auto_commit or credential is not None or self.log_guard.is_on
        # Confluent-kafka's own view of the consumer, from `join` on.
        self.bare: Any = None
        self.marks: Marks | None = None
        self.anew: Anew | None = None
        # None where librdkafka commits by itself, or nothing does.
        self.passed: Passed | None = None

    def join(self, consumer: KafkaConsumer, begin_anew: Callable[[TopicPartition], None]) -> None:
        """Take up the client that was just opened. `begin_anew` forgets a partition's old log."""
        bare: Any = BareConsumer(consumer)
        self.bare = bare
        if self.program_settings.contiguous:
            limits = self.program_settings.unmarked_records_max, self.program_settings.unmarked_bytes_max
            self.marks = Marks(bare, records_max=limits[0], bytes_max=limits[1], emit=self.log_lines.emit)
        spacing_s = COMMIT_INTERVAL_S_MIN if self.is_event_hubs else 0.0
        ledger = CommitLedger(CommitPacing(spacing_s, spacing_s=spacing_s))
        committer = Committer(
            ledger, clock=time.monotonic, emit=self.log_lines.emit, fatal=lambda _is_in_the_answer: None
        )
        self.log_guard.use(self.properties)
        self.anew = Anew(bare, self.access, self.marks, begin_anew)
        self.mirror.start(committer)
        self.commits = CommitSender(
            bare,
            committer,
            ledger,
            self.access,
            answers=self.answers,
            clock=time.monotonic,
            facts=self.log_guard.facts,
            marked=None if self.marks is None else self.marks.position,
        )
        if self.program_settings.auto_commit:
            done = self.returned if self.program_settings.auto_store else self.stored
            self.passed = Passed(bare, self.access, self.marks or done)
        self.credential.start(bare)

    def close(self) -> None:
        """End everything but the client."""
        self.credential.stop()
        self.log_guard.stop()
        self._next_credential_check_s = float("inf")
        self.commits.stop()

    def report_left(self) -> None:
        """Tell that the program waits no longer for the client to end."""
        text = (
            f"the client did not close within {seconds(self.program_settings.close_s or 0.0)} (close_s), "
            "because no broker answered. The program continues. If the last commits were not stored, their "
            "records are delivered again"
        )
        self.log_lines.emit(ConnectionProblem("close", text, fatal=True))

    def closed(self) -> None:
        """The client has gone; nothing more is acknowledged."""
        self.commits.closed()
        self.mirror.stop()
        self.log_lines.close()

    def check(self, now_s: float) -> bool:
        """Do what is due on the polling thread; tell whether it is time for an automatic commit."""
        if now_s >= self._next_credential_check_s:
            self._next_credential_check_s = now_s + CREDENTIAL_CHECK_S
            self.credential.apply()
        if is_due := now_s >= self._next_auto_s:
            self._next_auto_s = now_s + (self.program_settings.auto_commit_s or 0.0)
        self.next_check_s = min(self._next_credential_check_s, self._next_auto_s, self.log_guard.next_check_s)
        return is_due

    def _properties(self, asked: Mapping[str, object]) -> HiddenProperties:
        result = dict(asked)
        # A logger is no property to librdkafka, and callbacks are checked by confluent-kafka.
        callables = {name: result.pop(name) for name in (*_CALLBACKS, "logger") if name in result}
        if self.endpoint is not None:
            check_client_version()
            result = drop_in_properties(self.endpoint, result)
            if self.is_event_hubs:
                self.deviating.report("settings")
        if self.program_settings.auto_commit:
            result["enable.auto.commit"] = False
        if self.program_settings.contiguous:
            result["enable.auto.offset.store"] = False
        return HiddenProperties(result | self._callbacks(callables))

    def _callbacks(self, given: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(given)
        on_commit = result.get("on_commit")
        self.on_commit = on_commit if callable(on_commit) else None
        if "on_commit" not in result or callable(on_commit):
            result["on_commit"] = self._on_answer
        for name in _CALLBACKS:
            if callable(result.get(name)):
                result[name] = self.callbacks.guard(result[name])
        # Only with a program's own: to set one takes librdkafka's own log line away.
        if self.log_guard.is_on and callable(result.get("error_cb")):
            result["error_cb"] = _overheard(self.log_guard.note_error, result["error_cb"])
        return result

    def _on_answer(self, error: KafkaError | None, partitions: list[Any]) -> None:
        """Take librdkafka's answer to an asynchronous commit, inside `poll`, `consume` or `close`."""
        if self.commits.on_commit(error, partitions):
            self.report_answers()
        elif self.on_commit is not None:
            self.on_commit(error, partitions)

    def report_answers(self) -> None:
        """Let the program hear what its commits were answered. May raise what `on_commit` raises."""
        while self.answers:
            answer = self.answers.popleft()
            if self.on_commit is not None:
                self.on_commit(*answer)


def _overheard(on_error: Callable[[KafkaError], None], callback: Callable[..., object]) -> Callable[..., Any]:
    @functools.wraps(callback, updated=())
    def overheard(error: KafkaError) -> Any:
        on_error(error)
        return callback(error)

    return overheard
