"""`run` and `arun`: an app in a test, on a broker inside the process, without a change to the app."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.app.app import App
from ehkafka.endpoint import Endpoint
from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.testing.in_test.app_test import AppTest, AsyncAppTest, TestedApp
from ehkafka.testing.in_test.moved_clock import MovedClock
from ehkafka.testing.in_test.noted import NotedHistory
from ehkafka.testing.in_test.sending import Sender
from ehkafka.testing.in_test.topic_logs import TopicLogs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from typing import Unpack

    from ehkafka.app.keywords import ChangedSettings

Test = TypeVar("Test", bound=TestedApp)

PARTITIONS = 4
# What is still running when a test has failed gets so long.
_FAILED_STOP_S = 5.0
# Commits follow at once, so that `wait` need not; and the group is formed by what suits the embedded broker.
_SETTINGS: dict[str, Any] = {
    "start": "earliest",
    "reset": False,
    "instance_id": None,
    "commit_interval_s": 0.02,
    # The embedded broker keeps no offsets of transactions.
    "exactly_once": False,
}
WITHOUT_TRANSACTIONS = (
    "The app asks for exactly_once, but the test's broker keeps no offsets of transactions: in this test it "
    "sends at least once."
)
_CONSUMER = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}


@contextmanager
def run(
    app: App,
    *,
    topics: Mapping[str, int] | None = None,
    partitions: int = PARTITIONS,
    http: bool = False,
    **settings: Unpack[ChangedSettings],
) -> Iterator[AppTest]:
    """Run an app while the block lasts, on an embedded broker of its own, and give the test a hold of it.

    The app is not changed: it may have an endpoint in its code or not, and afterwards it is as before. Its
    topics, and those for its dead letters, are made; all partitions begin at their first record, whatever
    `start` says; commits follow within 50 ms; its mirror is left out, and so are transactions
    (`exactly_once`), with a warning. What ends the app is raised here, at
    the latest at the end of the block, with the handler's own error as its cause.

    - `app` (required): what `ehkafka.App(…)` returned.
    - `topics` (default `None`): partitions of topics by name, also of topics that the app has not.
    - `partitions` (default `4`): of every other topic.
    - `http` (default `False`): serve what the app's own `http=` says.
    - `**settings`: the fields of `ehkafka.settings.Settings` that are to be others in this test.

    Raises `ConfigurationError` for an app that runs, or has no handler.
    """
    if isinstance(app, App) and app._life.entrance.loop == "caller":  # noqa: SLF001 - made for this
        raise ConfigurationError(
            "run: the app has loop='caller', and there is no loop here: write `async with arun(app) as t:`, "
            "where your test enters what the app's handlers use."
        )
    with _on_a_broker(AppTest, app, topics, partitions, http, settings) as test:
        app.start()
        try:
            yield test
        except BaseException as error:
            _stop_after(error, test)
            raise
        try:
            app.stop()
        except EhkafkaError as failure:
            _raise_once(failure, test)
        test.close(keep=True)


@asynccontextmanager
async def arun(
    app: App,
    *,
    topics: Mapping[str, int] | None = None,
    partitions: int = PARTITIONS,
    http: bool = False,
    **settings: Unpack[ChangedSettings],
) -> AsyncIterator[AsyncAppTest]:
    """Run an app as `run` does, for a test on an event loop: the app is entered by `async with`.

    With `App(loop="caller")` its coroutines are on that loop, whose own timers, `deadline_s=` included, stay
    real.

    - `app` (required): what `ehkafka.App(…)` returned.
    - `topics` (default `None`): partitions of topics by name, also of topics that the app has not.
    - `partitions` (default `4`): of every other topic.
    - `http` (default `False`): serve what the app's own `http=` says.
    - `**settings`: the fields of `ehkafka.settings.Settings` that are to be others in this test.

    Raises what `run` raises.
    """
    with _on_a_broker(AsyncAppTest, app, topics, partitions, http, settings) as test:
        await app.__aenter__()
        try:
            yield test
        except BaseException as error:
            await asyncio.to_thread(_stop_after, error, test)
            with suppress(EhkafkaError):  # added to the error above
                await app.__aexit__(None, None, None)
            raise
        try:
            await app.__aexit__(None, None, None)
        except EhkafkaError as failure:
            _raise_once(failure, test)
        test.close(keep=True)


@contextmanager
def _on_a_broker(
    kind: type[Test],
    app: App,
    topics: Mapping[str, int] | None,
    partitions: int,
    http: bool,
    settings: Mapping[str, Any],
) -> Iterator[Test]:
    """Lend an app to a test while the block lasts; start nothing of it."""
    _must_be_app(app)
    if app.settings.exactly_once:
        logging.getLogger("ehkafka").warning(WITHOUT_TRANSACTIONS)
    endpoint = Endpoint.embedded(topics, partitions=partitions)
    clock = MovedClock()
    noted = NotedHistory()  # type: ignore[abstract]  # the others of the protocol do nothing
    consumer = {**settings.get("consumer", {}), **_CONSUMER}
    changed = {**_SETTINGS, **settings, "consumer": consumer}
    with ExitStack() as ending:
        ending.callback(endpoint.close)
        lent = app._in_test(endpoint, changed, noted, clock.clock, has_http=http)  # noqa: SLF001 - made for this
        ending.enter_context(lent)
        endpoint.prepare_topics(topics_of(app))
        bootstrap = endpoint.client_properties()["bootstrap.servers"]
        test = kind(
            app,
            endpoint,
            topics=topics_of(app),
            noted=noted,
            clock=clock,
            sender=Sender(bootstrap),
            logs=TopicLogs(bootstrap),
        )
        ending.callback(test.close, keep=False)
        yield test


def _must_be_app(app: object) -> None:
    if not isinstance(app, App):
        raise ConfigurationError(
            f"run: a {type(app).__name__} is no app: give what ehkafka.App(…) returned, and not a function "
            "that makes it."
        )


def topics_of(app: App) -> tuple[str, ...]:
    """Return the topics that an app needs: its handlers', and those that they write to."""
    options = app._options()  # noqa: SLF001 - made for this
    return tuple(sorted({*options.topics, *options.letter_topics, *options.output_topics}))


def _raise_once(failure: EhkafkaError, test: TestedApp) -> None:
    """Raise what ended the app, unless the test was given it before."""
    if failure is not test.reported:
        raise failure


def _stop_after(error: BaseException, test: TestedApp) -> None:
    """End a test that has failed by `error`, to which the app's own failure is added."""
    try:
        test.app.stop(drain=False, timeout_s=_FAILED_STOP_S)
    except EhkafkaError as failure:
        if failure is not test.reported:
            error.add_note(f"The app in this test had ended: {failure}")
