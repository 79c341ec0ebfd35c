"""`run`: an app in a test, on a broker inside the process, without a change to the app."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ehkafka.app.app import App
from ehkafka.app.in_test import TestRun
from ehkafka.endpoint import Endpoint
from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.testing.in_test.app_test import AppTest
from ehkafka.testing.in_test.moved_clock import MovedClock
from ehkafka.testing.in_test.noted import NotedHistory
from ehkafka.testing.in_test.sending import Sender
from ehkafka.testing.in_test.topic_logs import TopicLogs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.events.history import History

PARTITIONS = 4
# What is still running when a test has failed gets so long.
_FAILED_STOP_S = 5.0
# Commits follow at once, so that `wait` need not; and the group is formed by what suits the embedded broker.
_SETTINGS: dict[str, Any] = {
    "start": "earliest",
    "reset": False,
    "instance_id": None,
    "commit_interval_s": 0.02,
}
_CONSUMER = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}


@contextmanager
def run(
    app: App,
    *,
    topics: Mapping[str, int] | None = None,
    partitions: int = PARTITIONS,
    http: bool = False,
    **settings: Any,
) -> Iterator[AppTest]:
    """Run an app while the block lasts, on an embedded broker of its own, and give the test a hold of it.

    The app is not changed: it may have an endpoint in its code or not, and afterwards it is as before. Its
    topics, and those for its dead letters, are made; all partitions begin at their first record, whatever
    `start` says; commits follow within 50 ms; its mirror is left out. What ends the app is raised here, at
    the latest at the end of the block, with the handler's own error as its cause.

    - `topics` (default `None`): partitions of topics by name, also of topics beside the app's.
    - `partitions` (default `4`): of every other topic.
    - `http` (default `False`): serve what the app's own `http=` says.
    - `**settings`: the fields of `ehkafka.settings.Settings` that are to be others in this test.

    Raises `ConfigurationError` for an app that runs, or has no handler.
    """
    if not isinstance(app, App):
        raise ConfigurationError(
            f"run: a {type(app).__name__} is no app: give what ehkafka.App(…) returned, and not a function "
            "that makes it."
        )
    endpoint = Endpoint.embedded(topics, partitions=partitions)
    clock = MovedClock()
    heard: list[NotedHistory] = []

    def listen(own: History | None) -> NotedHistory:
        heard.append(NotedHistory(own))
        return heard[-1]

    consumer = {**settings.pop("consumer", {}), **_CONSUMER}
    changed = {**_SETTINGS, **settings, "consumer": consumer}
    with ExitStack() as ending:
        ending.callback(endpoint.close)
        ending.enter_context(
            app._in_test(  # noqa: SLF001 - made for this
                TestRun(endpoint=endpoint, listen=listen, settings=changed, clock=clock.clock, has_http=http)
            )
        )
        endpoint.prepare_topics(topics_of(app))
        bootstrap = endpoint.client_properties()["bootstrap.servers"]
        test = AppTest(
            app,
            endpoint,
            noted=heard[0],
            clock=clock,
            sender=Sender(bootstrap),
            logs=TopicLogs(bootstrap),
        )
        ending.callback(test.close, keep=False)
        app.start()
        try:
            yield test
        except BaseException as error:
            _stop_after(error, test)
            raise
        _stop(test)


def topics_of(app: App) -> tuple[str, ...]:
    """Return the topics that an app needs: its handlers', and those that they write to."""
    return tuple(sorted({*app.topics, *app.letter_topics}))


def _stop(test: AppTest) -> None:
    """End a test that has passed: what ended the app is its failure."""
    try:
        test.app.stop()
    except EhkafkaError as failure:
        if failure is not test.reported:
            raise
    test.close(keep=True)


def _stop_after(error: BaseException, test: AppTest) -> None:
    """End a test that has failed by `error`, to which the app's own failure is added."""
    try:
        test.app.stop(drain=False, timeout_s=_FAILED_STOP_S)
    except EhkafkaError as failure:
        if failure is not test.reported:
            error.add_note(f"The app in this test had ended: {failure}")
