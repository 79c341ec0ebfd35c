"""`ehkafka.spark.start` over a query and a writer in memory: what a session adds is in `older_program`."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.errors import ConfigurationError, EngineError, TopicNotFoundError
from ehkafka.records import TopicPartition
from ehkafka.spark import starting, versions
from ehkafka.spark.source.offsets import StreamOffset

LATE = "Query terminated: Python worker failed to connect back."
READINGS = TopicPartition("readings", 0)


@dataclass
class Run:
    """A query of one batch; it has ended once it was looked at `looks` times."""

    progress: dict[str, Any] | None = None
    error: str | None = None
    looks: int = 4
    trigger: str = "AvailableNowTrigger"
    id: str = "q"
    is_stopped: bool = False
    interrupt: bool = False
    sink: str = ""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it has not ended; the user presses Ctrl-C meanwhile."""
        if self.interrupt:
            raise KeyboardInterrupt
        self.looks -= 1
        return self.looks > 0 and not self.is_stopped

    @property
    def status(self) -> dict[str, Any]:
        """Spark's words for where it is."""
        last = "Terminated with exception: x" if self.error else "Processing new data"
        return {"message": ["", last, "Getting offsets from x", "Initializing sources"][self.looks]}

    def exception(self) -> str | None:
        """What it has ended with."""
        return self.error if self.looks <= 0 else None

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        """Of its one batch."""
        return self.progress

    def stop(self) -> None:
        """End it."""
        self.is_stopped = True

    @property
    def _jsq(self) -> Any:
        trigger = SimpleNamespace(toString=lambda: self.trigger)
        kind = SimpleNamespace(getSimpleName=lambda: "PythonTable" if self.sink else "ForeachBatchSink")
        sink = SimpleNamespace(name=lambda: self.sink, getClass=lambda: kind)
        execution = SimpleNamespace(trigger=lambda: trigger, sink=lambda: sink)
        return SimpleNamespace(streamingQuery=lambda: execution)


@dataclass
class Writer:
    """Starts these runs one after another."""

    runs: list[Run]
    conf: dict[str, str] = field(default_factory=dict)
    started: list[Run] = field(default_factory=list)

    def start(self, path: str | None = None) -> Run:
        """Start the next one."""
        self.started.append(self.runs[len(self.started)])
        return self.started[-1]

    @property
    def _spark(self) -> Any:
        return SimpleNamespace(conf=self.conf)


def planned(at: int, end: int | None = None, *, start: int = 0, is_new: bool = True) -> dict[str, Any]:
    """Return the progress of a batch from `start` to `at`; the log ended at `end`, as far as is known."""
    offset = StreamOffset({READINGS: at}, ends={} if end is None else {READINGS: end})
    times = {"triggerExecution": 1} | ({"latestOffset": 1} if is_new else {})
    other = {"endOffset": "another format's", "numInputRows": 0}
    # The rows say nothing: a compacted log has offsets without records.
    ours = {"endOffset": json.dumps(offset.to_json()), "numInputRows": 0}
    ours["startOffset"] = json.dumps(StreamOffset({READINGS: start}).to_json())
    return {"durationMs": times, "sources": [other, ours], "numInputRows": None}  # as Spark Connect has it


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is a step of the query."""
    monkeypatch.setattr(starting, "CHECK_S", 0.0)


def start(writer: Writer, **more: Any) -> Any:
    """Start that writer's query as a user does."""
    return starting.start(writer, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "progresses",
    [
        pytest.param([planned(10)], id="a batch without a limit reads all"),
        pytest.param([planned(10, 25), planned(20, 40), planned(30, 50)], id="up to the first ends"),
        pytest.param([planned(7, is_new=False), planned(17, 20), planned(20)], id="a repeated batch first"),
        pytest.param([planned(5, start=5)], id="nothing new"),
        pytest.param([planned(10, 25), planned(10, 25, start=10)], id="records that no reader gets"),
        pytest.param([planned(10, 25), planned(3, start=10)], id="a recreated log that is read"),
        pytest.param([None], id="stopped by its user"),
    ],
)
def test_available_now_is_started_again_until_the_ends_are_reached(
    progresses: list[dict[str, Any] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends are those at the start: what is written meanwhile is left for the next start.

    The columns that it does not use are logged once.
    """
    looked_at: list[Any] = []
    monkeypatch.setattr(starting, "log_unread_columns", looked_at.append)
    writer = Writer([Run(one) for one in progresses])
    assert start(writer) is writer.runs[-1]
    assert writer.started == writer.runs
    assert looked_at == [writer]


def test_a_platform_that_does_not_say_what_was_planned_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first run may have repeated a batch, later ones cannot: the second one's ends count, and a line."""
    batches = [(10, 25), (20, 40), (30, 50), (40, 60)]
    writer = Writer([Run(planned(at, end, start=at - 10, is_new=False)) for at, end in batches])
    assert start(writer) is writer.runs[-1]
    (line,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert "at its second run" in line


def test_another_trigger_is_not_waited_for() -> None:
    """The query is returned once its first batch is planned, which is when it no longer says so."""
    run = Run(trigger="ProcessingTimeTrigger(0)")
    assert start(Writer([run])) is run
    assert run.looks > 0
    assert not run.is_stopped


def test_a_query_that_never_began_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt is a line; the third one comes up."""
    caplog.set_level(logging.INFO, "ehkafka.spark")
    writer = Writer([Run(error=LATE), Run(error=LATE), Run(planned(10))])
    assert start(writer) is writer.runs[2]
    assert "The query starts, attempt 3 of 6: Spark's planning process" in caplog.text


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (LATE, EngineError, "did not start within ten seconds"),
        (
            "Error: ehkafka.errors.TopicNotFoundError: No x.\n SQLSTATE: 1",
            TopicNotFoundError,
            "No x.",
        ),
    ],
)
def test_what_ends_a_query_before_its_first_batch_is_raised(
    error: str, kind: type[Exception], text: str
) -> None:
    """As an error of ours, with nothing of Java behind it."""
    with pytest.raises(kind, match=text) as refused:
        start(Writer([Run(error=error)] * 2), tries=2)
    assert refused.value.__suppress_context__
    assert "SQLSTATE" not in str(refused.value)


def test_a_run_that_fails_later_is_the_users_to_look_at() -> None:
    """Its `awaitTermination()` raises Spark's exception; it is not started again."""
    writer = Writer([Run(planned(10, 25)), Run(planned(20, 25), error="a handler of the user's")])
    assert start(writer) is writer.runs[1]


def test_without_a_checkpoint_it_would_begin_again_and_again() -> None:
    """Such a query has another id at each start."""
    writer = Writer([Run(planned(10, 25)), Run(planned(10, 25), id="another")])
    with pytest.raises(ConfigurationError, match="checkpointLocation"):
        start(writer)
    assert writer.runs[1].is_stopped


def test_ctrl_c_stops_the_run() -> None:
    """And goes on to the caller."""
    run = Run(interrupt=True)
    with pytest.raises(KeyboardInterrupt):
        start(Writer([run]))
    assert run.is_stopped


def test_a_setting_that_would_read_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own wrapper asks for the end before the reader knows where the checkpoint is."""
    conf = {"spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true"}
    monkeypatch.setattr(versions, "gives_limits", lambda: False)
    writer = Writer([Run(planned(10))], conf)
    with pytest.raises(ConfigurationError, match="triggerAvailableNowWrapper"):
        start(writer)
    assert writer.runs[0].is_stopped
    monkeypatch.setattr(versions, "gives_limits", lambda: True)
    start(Writer([Run(planned(10))], conf))


def test_a_variable_that_was_set_too_late_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    """This program has it, and Spark's processes do not."""
    unset = "ehkafka.errors.ConfigurationError: the variable HOME_HUBS is not set in this process. B."
    monkeypatch.delenv("HOME_HUBS", raising=False)
    with pytest.raises(ConfigurationError, match=r"B\.$"):
        start(Writer([Run(error=unset)]))
    monkeypatch.setenv("HOME_HUBS", "Endpoint=sb://x")
    with pytest.raises(ConfigurationError, match="set it before the Spark session begins") as refused:
        start(Writer([Run(error=unset)]))
    assert "sb://" not in str(refused.value)


def test_speculation_is_refused_where_ehkafka_writes() -> None:
    """Two attempts of a task would write at the same time; other sinks know how to choose one."""
    conf = {"spark.speculation": "true"}
    writer = Writer([Run(planned(10), sink="ehkafka")], conf)
    with pytest.raises(ConfigurationError, match=r"spark\.speculation"):
        start(writer)
    assert writer.runs[0].is_stopped
    for sink in ("", "ehkafka-blob"):
        start(Writer([Run(planned(10), sink=sink)], conf))
