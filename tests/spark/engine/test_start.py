"""A start of a run: what ends it, and what is left of one that is broken off: nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError, GroupInUseError
from ehkafka.progress.metadata import MOVED
from ehkafka.spark.engine import start
from ehkafka.spark.engine.group.group import Group
from tests.contract.asking import ask
from tests.kit.inside import port_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    import ehkafka
    from ehkafka.spark.engine.run import SparkRun
    from ehkafka.testing import EmbeddedBroker

    Begin = Callable[..., SparkRun]

pytest.importorskip("pyspark")


def _interrupt(*_arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def app(app_at: Callable[..., ehkafka.App]) -> ehkafka.App:
    """Return an app of the group `g` on the embedded broker."""
    app = app_at()
    app.handler("t")(print)
    return app


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, lab: Any) -> Iterator[Begin]:
    """Return what runs an app with a query of the test's own, without Spark. Nothing may be left of it."""
    for name in ("check_session", "check_workers_python"):
        monkeypatch.setattr(start, name, lambda *_: None)

    def go(app: ehkafka.App, start_query: Callable[[], Any]) -> SparkRun:
        monkeypatch.setattr(start._Start, "_prepare", lambda *_: start_query)
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object(), defaultParallelism=2))
        return app.run_on_spark(spark)

    yield go
    lab.wait_until(lambda: "ehkafka-spark" not in [thread.name for thread in threading.enumerate()], 60)


@pytest.fixture
def break_off(app: ehkafka.App, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what starts a run with a query and breaks the start off where it makes this of `start`."""

    def go(query: Any, name: str = "AppStarted") -> None:
        with monkeypatch.context() as patch:
            patch.setattr(start, name, _interrupt)
            with pytest.raises(KeyboardInterrupt):
                begin(app, lambda: query)

    return go


@pytest.fixture
def signal_main() -> Iterator[Callable[[], None]]:
    """Return what sends the main thread a signal that interrupts it, from another one, and waits for that."""
    if not hasattr(signal, "pthread_kill"):
        pytest.skip("signals of this kind are POSIX's")
    noted = threading.Semaphore(0)
    main = threading.main_thread().ident
    assert main is not None

    def on_error(*_arguments: object) -> None:
        noted.release()
        raise KeyboardInterrupt

    def send() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        assert noted.acquire(timeout=60)

    before = signal.signal(signal.SIGUSR1, on_error)
    yield send
    signal.signal(signal.SIGUSR1, before)


def test_a_group_that_is_moved_while_on_start_functions_run_starts_no_query(
    app: ehkafka.App, begin: Begin, group_commits: Any
) -> None:
    """The run's start says so, and no handler is called."""

    @app.on_start
    def open_pool() -> None:
        group_commits({2: (1, MOVED)})

    with pytest.raises(GroupInUseError, match="moved by a consumer"):
        begin(app, lambda: pytest.fail("a query was started"))
    assert group_commits()[2] == (1, MOVED)


def test_a_signal_while_spark_starts_the_query_leaves_none_behind(
    app: ehkafka.App, begin: Begin, lab: Any, signal_main: Callable[[], None]
) -> None:
    """Java goes on to start it, whatever becomes of the call: it is ended, too, and then the group let go."""
    query = lab.FakeQuery()
    query.isActive = False

    def go_on() -> None:
        signal_main()
        query.isActive = True

    java = threading.Thread(target=go_on)

    def start_query() -> Any:
        java.start()
        java.join()
        return query

    with pytest.raises(KeyboardInterrupt):
        begin(app, start_query)
    java.join()
    assert not query.isActive


def test_a_start_that_is_broken_off_before_its_query_gives_the_group_back(
    app: ehkafka.App, begin: Begin, lab: Any
) -> None:
    """Ctrl-C in a function of on_start: what was opened is ended, and the next start begins."""
    interrupts = iter([True])

    @app.on_start
    def open_pool() -> None:
        if next(interrupts, False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin(app, lambda: pytest.fail("a query was started"))
    begin(app, lab.FakeQuery).stop()


def test_what_spark_says_to_a_start_is_raised_by_it(app: ehkafka.App, begin: Begin) -> None:
    """The very error; the on_stop functions run, and the group is given back."""
    reported: list[str] = []
    app.on_stop(lambda: reported.append("stop"))

    def start_query() -> None:
        raise LookupError("no such path")

    with pytest.raises(LookupError, match="no such path"):
        begin(app, start_query)
    assert reported == ["stop"]


def test_an_app_serves_its_page_while_its_run_lasts(
    app_at: Callable[..., ehkafka.App], begin: Begin, lab: Any
) -> None:
    """`App(http=…)`: a start that fails lets go of the address, a second one does not."""
    app = app_at(http="127.0.0.1:0")
    app.handler("t")(print)
    pools = iter([])
    app.on_start(lambda: next(pools))
    with pytest.raises(StopIteration):
        begin(app, lab.FakeQuery)
    pools = iter(["open"])
    assert app._life.web.site._server is None
    run = begin(app, lab.FakeQuery)
    port = port_of(app)
    with pytest.raises(ConfigurationError, match="The app is running"):
        begin(app, lab.FakeQuery)
    answers = {path: ask(port, path) for path in ("/live", "/ready", "/metrics", "/")}
    assert {answer[0] for answer in answers.values()} == {200}
    assert b"ehkafka_" in answers["/metrics"][1]
    run.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/live")


@pytest.mark.parametrize("name", ["AppStarted", "SparkRun"])
def test_further_signals_end_no_start_before_its_tasks(
    app: ehkafka.App,
    begin: Begin,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    signal_main: Callable[[], None],
    break_off: Callable[..., None],
    name: str,
) -> None:
    """A user who presses Ctrl-C again and again: no on_stop function, no client's end while tasks run."""
    query, left, closed = lab.FakeQuery(), [], []
    query.tasks = [1] * 12
    stop, close = query.stop, Group.close

    def stop_slowly() -> None:
        for _ in range(3):
            signal_main()
        stop()

    def note_close(group: Group, *, deadline_s: float) -> None:
        closed.append(list(query.tasks))
        close(group, deadline_s=deadline_s)

    query.stop = stop_slowly
    monkeypatch.setattr(Group, "close", note_close)
    app.on_stop(lambda: left.append(list(query.tasks)))
    break_off(query, name)
    assert (left, closed) == ([[]], [[]])
    begin(app, lab.FakeQuery).stop()


def test_a_further_signal_leaves_a_long_on_stop_function(
    app: ehkafka.App, lab: Any, signal_main: Callable[[], None], break_off: Callable[..., None]
) -> None:
    """By then nothing of ours runs, and the user wants to leave at once."""
    go = threading.Event()

    @app.on_stop
    def close_pool() -> None:
        signal_main()
        assert go.wait(60)

    break_off(lab.FakeQuery())
    go.set()


def test_a_start_whose_query_does_not_end_keeps_its_group_until_it_has(
    app: ehkafka.App,
    begin: Begin,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    break_off: Callable[..., None],
) -> None:
    """It is waited for with a bound, and reported; no other run gets the group while its handlers may run."""
    query, go, reported = lab.FakeQuery(), threading.Event(), list[str]()
    stop = query.stop

    def stop_at_last() -> None:
        assert go.wait(60)
        stop()

    query.stop = stop_at_last
    app.on_stop(lambda: reported.append("stop"))
    with monkeypatch.context() as patch:
        patch.setattr(start, "SLACK_S", 0.1)
        break_off(query)
    assert "has not ended" in caplog.text
    assert reported == []
    with pytest.raises(GroupInUseError, match="this process runs it"):
        begin(app, lab.FakeQuery)
    go.set()
    lab.wait_until(lambda: "ehkafka-spark" not in [thread.name for thread in threading.enumerate()], 60)
    assert reported == ["stop"]
    begin(app, lab.FakeQuery).stop()


def test_what_fails_while_a_start_is_broken_off_is_reported_with_it(
    app: ehkafka.App, lab: Any, caplog: pytest.LogCaptureFixture, break_off: Callable[..., None]
) -> None:
    """The caller sees what broke the start off; the rest is ended all the same."""
    query, reported = lab.FakeQuery(), list[str]()

    def fail() -> None:
        raise LookupError("no such query")

    query.stop = fail
    app.on_stop(lambda: reported.append("stop"))
    break_off(query)
    assert "no such query" in caplog.text
    assert reported == ["stop"]


def test_a_signal_right_after_the_group_was_taken_gives_it_back(
    app: ehkafka.App, begin: Begin, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook that starts the app again is not known that its own process runs it."""
    taken = start.reserve

    def interrupt(*what: Any) -> None:
        taken(*what)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(start, "reserve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            begin(app, lab.FakeQuery)
    begin(app, lab.FakeQuery).stop()


@pytest.mark.timeout(900)
def test_no_handler_is_left_of_a_start_that_was_broken_off(
    spark: SparkSession,
    broker: EmbeddedBroker,
    app_at: Any,
    journal: Any,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Spark itself. The next run meets none of its calls, and has its caller's settings of Spark."""
    broker.produce("u", [(b"k", b"0")])
    note = journal.note

    def hang(record: ehkafka.Record) -> None:
        while True:
            note("hangs", os.getpid(), record.offset())
            time.sleep(0.01)

    def interrupt(*_arguments: object) -> None:
        lab.wait_until(journal.lines)
        raise KeyboardInterrupt

    app = app_at()
    app.handler("u")(hang)
    with monkeypatch.context() as patch:
        patch.setattr(start, "AppStarted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            app.run_on_spark(spark)
    seen, pools = len(journal.lines()), []
    app = app_at()
    app.handler("u")(lambda record: note("later", os.getpid(), record.offset()))
    app.on_stop(lambda: pools.append(spark.sparkContext.getLocalProperty("spark.scheduler.pool")))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "homes")
    try:
        assert app.run_on_spark(spark, available_now=True).wait(400)
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)
    assert [line[0] for line in journal.lines()[seen:]] == ["later"]
    assert pools == ["homes"]
