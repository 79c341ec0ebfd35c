"""The client of a run: its opening, the key that it signs in with, and the reaction to its errors.

The app's thread opens it, the poll thread uses it; `problems` is read from any thread. A refused client
reports the same error several times a second for as long as it lasts: `ConnectionErrors` says who hears of
it, and how often. It runs inside `consume()` and calls no code of the user's itself.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Final

from ehkafka.endpoint.broker_errors import EXPLAINING
from ehkafka.endpoint.client import describe_error
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.intake.log_watch import refresh_s
from ehkafka.records.client_codes import ClientCode
from ehkafka.recovery.failures import STOP
from ehkafka.run.reach import Reach
from ehkafka.wording import ended

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.poll_loop import PollLoop
    from ehkafka.run.assembly import Assembly
    from ehkafka.run.log_identity import LogIdentity


ON_ERROR_SPACING_S: Final = 5.0
"""Between two calls of `on_error` for errors of one code."""

# Where nothing is seen: librdkafka waits at most 10 s (`reconnect.backoff.max.ms`) between two attempts, and
# a failed one is reported again, so after a longer silence it is over.
LASTS_S: Final = 15.0
# After the last error an idle app asks for an answer so late: a refusal is repeated within these seconds.
PROOFS_AFTER_S: Final = (1.0, 3.0, 7.0)


class ConnectionErrors:
    """Remembers when which error was heard; `report` gets those that the user's code should hear."""

    def __init__(self, clock: Callable[[], float], report: Callable[[KafkaError], None]) -> None:
        self._clock = clock
        self._report = report
        # By code, so it stays small. Poll thread only.
        self._reported_s: dict[int, float] = {}
        # The last error that says why there is no connection, and when. Replaced, never changed.
        self._last: tuple[float, KafkaError] | None = None
        # Poll thread only: records received and commits acknowledged, as seen first after that error.
        self._seen: tuple[int, int] | None = None
        # Poll thread only: how often an answer was asked for since.
        self._proofs = 0

    def on_error(self, error: KafkaError) -> None:
        """Take an error that librdkafka has reported."""
        now_s = self._clock()
        if error.code() in EXPLAINING:
            self._last = (now_s, error)
            self._seen = None
            self._proofs = 0
        reported_s = self._reported_s.get(error.code())
        if reported_s is None or now_s - reported_s >= ON_ERROR_SPACING_S:
            self._reported_s[error.code()] = now_s
            self._report(error)

    def check(self, received_records: int, acknowledged_commits: int, up_at_s: float = float("-inf")) -> None:
        """End the problem where a connection came up, or records or an acknowledged commit have come since.

        Now and then. `up_at_s` is when a broker accepted this client last: an idle app's only sign, where its
        group has committed nothing that could be sent again.
        """
        if self._last is None:
            return
        if up_at_s > self._last[0]:
            self._last = None
            return
        now = (received_records, acknowledged_commits)
        if self._seen is None:
            self._seen = now
        elif now != self._seen:
            self._last = None

    def wants_proof(self) -> bool:
        """Tell whether it is time to ask the broker for something: an answer would end the problem."""
        if self._last is None or self._proofs >= len(PROOFS_AFTER_S):
            return False
        is_time = self._clock() - self._last[0] >= PROOFS_AFTER_S[self._proofs]
        self._proofs += is_time
        return is_time

    @property
    def problem(self) -> str | None:
        """Why brokers cannot be reached or refuse this client, while that lasts."""
        last = self._last
        if last is None or self._clock() - last[0] > LASTS_S:
            return None
        return f"The connection to the broker fails: {ended(describe_error(last[1]))}"


# Of all runs of this process, those that still have a client: they share what is fetched ahead.
_opened: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """One run's consumer, and the watch over the logs that it reads."""

    def __init__(self, run: Assembly, context: IntakeContext, logs: LogIdentity) -> None:
        self._run = run
        self._context = context
        self.logs = logs
        self.reach = Reach(run.app, run.bus.emit)
        self._credential = CredentialWatch(run.app.endpoint.credential, run.bus.emit)
        self._errors = ConnectionErrors(time.monotonic, self._report)
        # The poll thread is the one that the client calls back on.
        self._is_polled = False
        self._stop_token_events: Callable[[], None] = lambda: None

    def open(self, loop: PollLoop) -> Consumer:
        """Return a consumer that the broker has answered. Raises what is wrong."""
        context = self._context
        if (tokens := self._run.app.endpoint.tokens) is not None:
            self._stop_token_events = tokens.listen(self._run.bus.emit)
        _opened.add(self)
        properties = self.reach.properties(len(_opened))
        assert context.brokers.log_watch is not None
        context.brokers.log_watch.refresh_s = refresh_s(properties)
        loop.use(properties)

        def take(consumer: Consumer, error: KafkaError) -> bool:
            if self._is_polled:
                loop.error_cb(consumer, error)
            return self._is_polled

        return self.reach.open(
            properties,
            stats_cb=context.brokers.contact.with_statistics(properties),
            on_error=take,
            on_commit=context.committer.on_commit,
            throttle_cb=context.brokers.throttle.on_throttle,
        )

    def start(self, consumer: Consumer) -> None:
        """Watch over the client's key. Poll thread, before anything else."""
        self._is_polled = True
        self._credential.start(consumer)

    def stop(self) -> None:
        """Ask and watch nothing any more. Waits for no answer."""
        self.logs.stop()
        self._credential.stop()
        self._stop_token_events()
        _opened.discard(self)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread asks for keys or tokens."""
        tokens = self._run.app.endpoint.tokens
        return self._credential.owns(thread) or (tokens is not None and tokens.owns(thread))

    def problems(self) -> Iterator[str | None]:
        """Yield what is wrong with the connection, the key and the token."""
        tokens = self._run.app.endpoint.tokens
        yield from (self._errors.problem, self._credential.problem, tokens.problem if tokens else None)

    def check(self, received_records: int) -> None:
        """Find out whether what was wrong is over. Poll thread, now and then."""
        context, contact = self._context, self._context.brokers.contact
        self._credential.apply()
        self._errors.check(received_records, context.committer.acknowledged, contact.up_at_s)
        contact.check(context.committer.acknowledged, context.brokers.throttle.total_s)
        for text in contact.new_silences(context.owned, self._run.app.endpoint.name):
            self._run.bus.emit(ConnectionProblem("silence", text, fatal=False))
        if self._errors.wants_proof():
            context.ledger.ask_for_proof()

    def on_error(self, error: KafkaError) -> None:
        """Take an error that librdkafka keeps trying to fix. Poll thread."""
        if error.name() == "_AUTHENTICATION":
            self._credential.check_now()
        if error.code() == ClientCode.ALL_BROKERS_DOWN:
            self._context.brokers.contact.note_down()
        self._errors.on_error(error)

    def _report(self, error: KafkaError) -> None:
        if (on_error := self._run.app.on_error) is None:
            return

        def ask() -> None:
            if on_error("connection", None, None, error) == STOP:
                self._run.fail(EndpointError(f"on_error stopped the app: {error.str()}"))

        # The user's code may block: not on the poll thread.
        self._context.hook_threads.submit("on_error", {"on_error": ask}, order="on_error")
