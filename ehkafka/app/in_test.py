"""An app in a test: another endpoint and other settings for one run. The part of `App` that `testing` uses.

Nothing of it stays: when the block ends the app has its own endpoint, settings, mirror and HTTP side again,
and may be started as if it never had been. Called by the thread that runs the test.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ehkafka.settings.clock import REAL_CLOCK, Clock

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.app.configuration import Configuration
    from ehkafka.app.on_end import OnEnd
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.errors import EhkafkaError
    from ehkafka.events.history import History
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.http.options import Http
    from ehkafka.records import TopicPartition
    from ehkafka.run.runtime import Runtime

# What a run in a test changes, by the run itself as well: all of it is put back.
_PUT_BACK = (
    "_configuration",
    "_specs",
    "_history",
    "_mirror",
    "_http",
    "_clock",
    "_on_end",
    "_state",
    "_runtime",
    "_supervisor",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """What one run has instead of the app's own. `listen` makes the run's history out of the app's."""

    endpoint: Endpoint
    listen: Callable[[History | None], History]
    settings: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = REAL_CLOCK
    # Whether the app serves what its code says by `http=`.
    has_http: bool = False

    # pytest collects classes by their names.
    __test__ = False


class InTest:
    """What a test can do with an app that its code does not offer."""

    _configuration: Configuration
    _specs: list[HandlerSpec]
    _history: History | None
    _mirror: MirrorChoice | None
    _http: Http | None
    _clock: Clock = REAL_CLOCK
    _on_end: OnEnd
    _runtime: Runtime | None
    _lock: threading.RLock

    @contextmanager
    def _in_test(self, run: TestRun) -> Iterator[None]:
        """Run the app as `run` says while the block lasts. Raises `ConfigurationError` for one that runs."""
        with self._lock:
            self._check_process()
            self._must_be_at_rest()
            self._must_have_handlers()
            kept = {name: getattr(self, name) for name in _PUT_BACK}
            self._configuration = self._configuration.in_test(run.endpoint, run.settings)
            # All topics are new: what is there is what the test sends, from the first record on.
            self._specs = [
                spec if spec.start is None else dataclasses.replace(spec, start=None) for spec in self._specs
            ]
            self._history = run.listen(self._history)
            # It lies outside of the test.
            self._mirror = None
            self._clock = run.clock
            # The test raises it.
            self._on_end = _nothing
            if not run.has_http:
                self._http = None
        try:
            yield
        finally:
            with self._lock:
                for name, value in kept.items():
                    setattr(self, name, value)

    @property
    def _handlers_by_topic(self) -> dict[str, str]:
        return {topic: spec.name for spec in self._specs for topic in spec.topics}

    def _next_due_s(self) -> float | None:
        """Return when the next thing is due that waits for a time; None where nothing does."""
        return None if self._runtime is None else self._runtime.next_due_s()

    def _has_received(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Tell whether all up to these next_offsets is in inboxes, or has gone through them."""
        runtime = self._runtime
        return (
            runtime is None
            or runtime.is_done
            or all(
                any(route.hub.has_received(where, end) for route in runtime.routes)
                for where, end in ends.items()
            )
        )

    def _is_at_rest(self, *, letters: bool) -> bool:
        """Tell whether no record runs, and none is left that could run now; no letter either, if asked."""
        runtime = self._runtime
        return runtime is None or runtime.is_done or runtime.is_at_rest(letters=letters)

    def _sent_topics(self, timeout_s: float) -> set[str]:
        """Return the topics that `app.producer` has sent to, once what it was given is there."""
        if self._runtime is None:
            return set()
        messages = self._runtime.messages
        messages.flush(timeout_s)
        return set(messages.topics)

    def _check_process(self) -> None:
        raise NotImplementedError

    def _must_be_at_rest(self) -> None:
        raise NotImplementedError

    def _must_have_handlers(self) -> None:
        raise NotImplementedError


def _nothing(error: EhkafkaError) -> None:
    """Do nothing about what ends the app."""
