"""What cannot work is refused before anything starts, where it stands, by name and with the next step."""

from __future__ import annotations

import functools
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.errors import ConfigurationError
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

NAN, INFINITE = float("nan"), float("inf")
NOWHERE = ehkafka.Endpoint.kafka("127.0.0.1:1")
FOR_EVER = ehkafka.Retry(attempts=None)


def make(**settings: Any) -> ehkafka.App:
    """Return an app that reaches nothing."""
    return ehkafka.App(**{"group": "g", "endpoint": NOWHERE, "start": "earliest", **settings})


def without_addresses(value: object) -> str:
    """Return a text that is the same in each process: test processes compare the names of their tests."""
    return re.sub(r" at 0x\w+", "", str(value))


def plain(_record: Any) -> None:
    """Handle a record."""


async def awaited(*_anything: Any) -> None:
    """Handle a record, or stand for any function that would have to be awaited."""


def generates(*_anything: Any) -> Any:
    """Stand for a function of which a call runs nothing."""
    yield 1


async def generates_async(_record: Any) -> AsyncIterator[int]:
    """Stand for one on a loop."""
    yield 1


class Empty:
    """No class handler."""


class Process:
    """A class handler."""

    def process(self, record: Any) -> None:
        """Handle a record."""


class Generates:
    """A class handler of which a call runs nothing."""

    def process(self, record: Any) -> Any:
        """Handle a record."""
        yield record


class OpensLate:
    """A class handler that opens on a thread without a loop."""

    async def open(self, partition: Any) -> None:
        """Open it."""

    async def process(self, record: Any) -> None:
        """Handle a record."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": ""}, "group is missing: name the consumer group"),
        ({"group": None}, "group is missing"),
        ({"start": None}, "start is missing.*'earliest', 'latest'"),
        ({"start": "newest"}, "start='newest'"),
        ({"start": -5}, "start=-5"),
        ({"start": True}, "start=True"),
        ({"endpoint": "localhost:9092"}, "endpoint=str is no Endpoint"),
        ({"comit_interval_s": 1}, "comit_interval_s"),
        ({"commit_interval_s": 0}, "commit_interval_s=0"),
        ({"commit_interval_s": "1"}, "commit_interval_s='1'"),
        ({"commit_interval_s": NAN}, "commit_interval_s=nan"),
        ({"commit_every_records": 0}, "commit_every_records=0"),
        ({"commit_idle_s": -1}, "commit_idle_s=-1"),
        ({"backlog_records_max": 0}, "backlog_records_max=0"),
        ({"backlog_records_max": True}, "backlog_records_max=True"),
        ({"backlog_records_max": 1.5, "consume_records_max": 1}, r"backlog_records_max=1\.5"),
        ({"backlog_records_max": 10, "consume_records_max": 20}, "consume_records_max=20"),
        ({"drain_s": -1}, "drain_s=-1"),
        ({"stop_s": -0.1}, "stop_s=-0.1"),
        ({"stop_s": INFINITE}, "stop_s=inf"),
        ({"stuck_s": 0}, "stuck_s=0"),
        ({"assignor": "sticky"}, "assignor='sticky'"),
        ({"on_out_of_range": "reset"}, "on_out_of_range='reset' is unknown"),
        ({"max_age": timedelta(0)}, "max_age="),
        ({"max_age": 3_600}, "max_age="),  # a number would leave its unit open
        *(({"drain": wrong}, "'started', 'all' or 'running'") for wrong in ("most", 1, None, "")),
        *(({"report_interval_s": wrong}, "report_interval_s") for wrong in (-1, "60", None)),
        ({"loop": "mine"}, "loop"),
        ({"on_end": "exit"}, "on_end"),
        ({"on_end": awaited}, "on_end"),
        ({"mirror": StoreMirror}, "is not a mirror"),
        ({"mirror": object()}, "is not a mirror"),
    ],
    ids=without_addresses,
)
def test_what_cannot_work_is_refused_when_the_app_is_made(options: dict[str, Any], words: str) -> None:
    """No start, no group, an unknown or impossible setting: refused by name, with no default."""
    with pytest.raises(ConfigurationError, match=words):
        make(**options)


def test_a_connection_string_in_place_of_a_mirror_is_not_repeated() -> None:
    """It is a secret."""
    with pytest.raises(ConfigurationError, match="is not a mirror") as found:
        make(mirror="AccountName=a;AccountKey=c2VjcmV0")
    assert "c2VjcmV0" not in str(found.value)


# Of handlers, of batch handlers, of both.
HANDLER: list[tuple[dict[str, Any], str]] = [
    ({"workers": 100_000}, "workers=100000"),
    ({"workers": "many"}, "'many'.*from 1 to 10000"),
    ({"workers": ehkafka.Auto(1, 20_000)}, "a number from 1 to 10000, .* a workers_max in this range"),
    ({"null_key": "drop"}, "null_key='drop'"),
    ({"raw": "no"}, "raw='no'; use True or False"),
    *(({"headers": wrong}, "headers=.*'auto', 'amqp' or 'raw'") for wrong in ("AMQP", None, True, [])),
    *(
        ({"rate_limit": wrong}, f"handler 'plain'.*rate_limit={wrong!r}")
        for wrong in (0, -1.0, NAN, INFINITE, "100", True, 1e-9)
    ),
    *(
        ({"deadline_s": wrong}, f"deadline_s={wrong!r}.*give the seconds that one call may take")
        for wrong in (0, -1.0, NAN, INFINITE, "10", True)
    ),
]
BATCH: list[tuple[dict[str, Any], str]] = [
    ({"batch_records_max": 0}, "batch_records_max=0; use a number from 1"),
    ({"batch_records_max": 2.5}, "batch_records_max=2.5"),
    ({"batch_records_max": True}, "batch_records_max=True"),
    ({"batch_bytes_max": 0}, "batch_bytes_max=0; use a number of bytes"),
    ({"wait_s_max": -1}, "wait_s_max=-1; use a number of seconds"),
    ({"wait_s_max": NAN}, "wait_s_max=nan"),
    ({"wait_s_max": "1"}, "wait_s_max='1'"),
    ({"workers": 10_001}, "workers=10001"),
    ({"workers": "auto"}, "does not work with batches"),
]
BOTH: list[tuple[dict[str, Any], str]] = [
    ({"workers": 0}, "workers=0"),
    ({"workers": True}, "workers=True"),
    ({"retry": 3}, "retry=3"),
    ({"order_by": "key"}, "order_by='key'; it is not callable"),
    ({"scope": "topic"}, "scope='topic'"),
    ({"start": "newest"}, "start='newest'"),
    ({"max_age": "1h"}, "max_age="),
    ({"on_failure": "stop"}, "on_failure='stop'"),
    ({"on_failure": ehkafka.Stop}, "on_failure="),
    *(({"on_failure": wrong}, rf"on_failure={wrong!r}; use Stop\(\)") for wrong in ("", False, 0)),
    # Unawaited, a letter would count as safe, and each record would have an order of its own.
    *(
        ({name: function}, f"{name}=.*plain function")
        for name in ("retry", "order_by")
        for function in (awaited, functools.partial(awaited, 1), generates)
    ),
]


@pytest.mark.parametrize(
    ("register", "options", "words"),
    [
        *(("handler", *row) for row in (*HANDLER, *BOTH)),
        *(("batch_handler", *row) for row in (*BATCH, *BOTH)),
    ],
    ids=without_addresses,
)
def test_options_that_cannot_work_are_refused_where_they_stand(
    register: str, options: dict[str, Any], words: str
) -> None:
    """Value and fix, at registration; what Python takes for false is no policy."""
    with pytest.raises(ConfigurationError, match=words):
        getattr(make(), register)("t", **options)(plain)


@pytest.mark.parametrize("function", [awaited, functools.partial(awaited, 1), generates])
def test_a_letter_function_that_would_not_run_is_refused(function: Any) -> None:
    """Unawaited, a letter would count as safe."""
    with pytest.raises(ConfigurationError, match=r"on_failure=DeadLetter\(.*plain function"):
        make().handler("t", on_failure=ehkafka.DeadLetter(function))(plain)


@pytest.mark.parametrize(
    ("register", "topics", "function", "words"),
    [
        ("handler", (), plain, None),
        ("handler", ("",), plain, None),
        ("handler", ("t",), "print", None),
        ("handler", ("t",), Empty, "no method process"),
        # Calling it would run nothing of it: every record would count as handled.
        ("handler", ("t",), generates, "contains `yield`"),
        ("handler", ("t",), Generates, "contains `yield`"),
        ("handler", ("t",), generates_async, "contains `yield`.* or add to="),
        ("handler", ("t",), OpensLate, r"open\(\) or close\(\) is an async def.*on_worker_start"),
        ("batch_handler", ("t",), Process, "one instance per partition"),
        ("batch_handler", ("t",), 3, "function=3"),
    ],
)
def test_functions_that_cannot_be_handlers_are_refused(
    register: str, topics: tuple[str, ...], function: Any, words: str | None
) -> None:
    """With what to do instead."""
    with pytest.raises(ConfigurationError, match=words):
        getattr(make(), register)(*topics)(function)


def test_more_tasks_than_threads_may_be_asked_for() -> None:
    """100,000, and one more is refused by name."""
    make().handler("t", workers=100_000)(awaited)
    with pytest.raises(
        ConfigurationError, match=r"workers=100001; .* 1 to 10000, or 100000 for an async def"
    ):
        make().handler("t", workers=100_001)(awaited)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0,), "workers_min=0"),
        ((2, 1), "workers_max is below workers_min"),
        ((1, 2.5), "workers_max=2.5"),
        ((1, True), "workers_max=True"),
        ((None,), "workers_min=None"),
        ((1_000_000,), "from 1 to 100000"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds: tuple[Any, ...], words: str) -> None:
    """Where they are written."""
    with pytest.raises(ConfigurationError, match=words):
        ehkafka.Auto(*bounds)


def test_one_topic_has_one_handler_of_either_kind() -> None:
    """The message names the topic and the handler that it has."""
    app = make()
    app.handler("t", "u")(plain)
    with pytest.raises(ConfigurationError, match=r"'u' already has handler 'plain'.*a topic has one handler"):
        app.batch_handler("u")(plain)
    with pytest.raises(ConfigurationError):
        app.use(3)  # type: ignore[arg-type]


# --- at the start ---


async def wraps_async(record: Any, call_next: Any) -> None:
    """Wrap a coroutine."""
    await call_next(record)


def wraps_plain(record: Any, call_next: Any) -> None:
    """Wrap a function."""
    call_next(record)


def to_json(_record: Any) -> dict[str, Any]:
    """Send JSON."""
    return {}


def to_bytes(_record: Any) -> bytes:
    """Send bytes."""
    return b""


def promises(_record: Any) -> list[ehkafka.Send] | None:
    """Return messages, by its annotation."""


def with_letters_in_a_circle(app: Any) -> None:
    """Let the letters of each handler be the other one's records."""
    app.handler("u", on_failure=ehkafka.DeadLetter("t"))(Process)


LETTERS = {"on_failure": ehkafka.DeadLetter("u")}
TO_LETTERS = {"on_parked_full": "dead_letter"}
NO_LETTERS = r"'plain' has no dead-letter topic.* on_failure=DeadLetter"
STARTS: list[tuple[dict[str, Any], Any, Callable[[Any], object] | None, str]] = [
    ({"consumer": {"enable.auto.commit": True}}, plain, None, "enable.auto.commit=True.*commits itself"),
    ({"consumer": {"auto.offset.reset": "earliest"}}, plain, None, r"auto.offset.reset.*App\(start="),
    ({"consumer": {"no.such.property": 1}}, plain, None, "no.such.property"),
    ({"consumer": {"group.id": "other"}}, plain, None, "group.id"),
    (
        {"consumer": {"session.timeout.ms": 5_000, "heartbeat.interval.ms": 4_000}},
        plain,
        None,
        "heartbeat.interval",
    ),
    ({}, None, None, "no handler"),
    ({"start": {("tt", 0): 1}}, plain, None, "'tt'"),
    ({"batch_records_max": 2_000, "backlog_records_max": 1_000}, plain, None, "waits for 2000 records"),
    (LETTERS, plain, with_letters_in_a_circle, "in a circle: plain → Process → plain"),
    ({}, plain, lambda app: app.use(wraps_async), "'wraps_async' is an async def, but handler 'plain'"),
    ({}, awaited, lambda app: app.use(wraps_plain), "'wraps_plain' is a plain function, but handler 'aw"),
    ({}, plain, lambda app: app.on_worker_start(awaited), "'awaited' is an async def, but handler 'plain'"),
    ({"retry": FOR_EVER, **TO_LETTERS}, plain, None, NO_LETTERS),
    ({"retry": FOR_EVER, "on_failure": ehkafka.Skip(), **TO_LETTERS}, plain, None, NO_LETTERS),
    ({"on_failure": ehkafka.Hold(), **TO_LETTERS}, plain, None, NO_LETTERS),
    # Readers of the topic could not decode both.
    ({"to": "t4"}, to_json, lambda app: app.handler("u", to="t4")(to_bytes), "and 'to_bytes' send different"),
    # What is sent would go nowhere.
    ({}, promises, None, "'promises' is annotated to return Send"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "handler", "more", "words"), STARTS)
def test_what_cannot_run_is_refused_at_the_start(
    lab: Any, options: dict[str, Any], handler: Any, more: Callable[[Any], object] | None, words: str
) -> None:
    """The message names the property or function and what to do; nothing was started."""
    app = lab.app(handler, **options)
    if more is not None:
        more(app)
    with pytest.raises(ConfigurationError, match=words) as caught:
        app.start()
    assert caught.value.exit_code == 2
    assert app.state in ("new", "stopped")


def test_a_handler_of_letters_is_no_circle(lab: Any) -> None:
    """A topic of letters may well have a handler of its own."""
    app = lab.app(plain, **LETTERS)
    app.handler("u")(Process)
    app.start()


@pytest.mark.parametrize(
    ("topic", "options", "words"),
    [
        ("reedings", {}, r"'reedings' on this broker\. Create.*dead, t, t4, u"),
        ("deads", {}, r"'deads' on this broker; did you mean dead\? Create"),
        ("t", {"on_failure": ehkafka.DeadLetter("t.dead")}, r"'t\.dead'.*on_failure=DeadLetter"),
        ("t", {"to": "nowhere"}, "'nowhere'.*to="),
    ],
)
def test_a_topic_that_does_not_exist_is_named_with_those_that_do(
    dead: Any, recorder: Any, topic: str, options: dict[str, Any], words: str
) -> None:
    """Of records and of letters; nothing was created, and no record was handled."""
    dead.produce("a")
    with pytest.raises(ehkafka.errors.TopicNotFoundError, match=words):
        dead.start(recorder, topic, **options)
    assert recorder.started == []


def test_an_unreachable_broker_is_reported_within_the_connect_time(lab: Any, recorder: Any) -> None:
    """EndpointError after connect_s, with host and port and what the system said to them."""
    began_s = unstolen_s()
    words = r"^127\.0\.0\.1:1 could not be reached within 1 s: .* refused .*\. Check the address and"
    with pytest.raises(ehkafka.errors.EndpointError, match=words):
        lab.start(recorder, connect_s=1.0, endpoint=NOWHERE)
    assert unstolen_s() - began_s < 4.0


@pytest.mark.parametrize(
    "wrong", [{"until": "now"}, {"until": True}, {"settle_s": 0}, {"settle_s": "60"}, {"settle_s": True}]
)
def test_what_is_no_end_of_a_run_is_refused(wrong: dict[str, Any]) -> None:
    """Before anything is started."""
    app = make()
    app.handler("t")(plain)
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        app.run(**({"until": "caught_up"} | wrong))


def test_a_running_app_refuses_a_drain_that_does_not_exist_and_goes_on(lab: Any, recorder: Any) -> None:
    """The message names those that do."""
    app = lab.start(recorder)
    with pytest.raises(ConfigurationError, match="'started', 'all' or 'running'"):
        app.stop(drain="most")
    assert app.state == "running"
