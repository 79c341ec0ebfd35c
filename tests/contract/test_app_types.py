"""Payload types, for every kind of worker: what a handler is given, what is rejected, where it is decoded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest

import ehkafka
from ehkafka.codecs import per_process
from ehkafka.events import HandlerFailed, RecordRetried
from tests.contract import typed_handlers as typed
from tests.contract.conftest import FAST_GROUP
from tests.contract.letters import TO_DEAD

if TYPE_CHECKING:
    from pathlib import Path


class Kind(NamedTuple):
    """How a handler of this kind is registered."""

    handler: str
    options: dict[str, Any]
    is_batch: bool = False


KINDS = {
    # A history has its own wrapper around each call.
    "bare threads": Kind("handle", {}),
    "threads": Kind("handle", {}),
    "threads with the record": Kind("handle_both", {}),
    "asyncio": Kind("handle_async", {}),
    "processes": Kind("handle", {"workers": ehkafka.Processes(2)}),
    "batches": Kind("handle_batch", {"batch_records_max": 7, "wait_s_max": 0.02}, is_batch=True),
}
BOTH = "threads with the record"


class Stage:
    """One kind's apps."""

    def __init__(self, lab: Any, kind: Kind, name: str) -> None:
        self.lab = lab
        self.kind = kind
        self.name = name

    def app(self, handler: str = "", **options: Any) -> Any:
        """Make an app with this kind's handler."""
        app = self._bare() if self.name == "bare threads" else self.lab.app(None)
        register = app.batch_handler if self.kind.is_batch else app.handler
        register("t", **{**self.kind.options, **options})(getattr(typed, handler or self.kind.handler))
        return app

    def _bare(self) -> Any:
        settings: dict[str, Any] = {"commit_interval_s": 0.1, "consumer": FAST_GROUP}
        app = ehkafka.App(group="g", start="earliest", endpoint=self.lab.endpoint, **settings)
        self.lab.apps.append(app)
        return app

    def optional(self, **options: Any) -> Any:
        """Make an app whose handler takes tombstones."""
        ends = {"asyncio": "_async", "batches": "_batch"}
        return self.app(f"handle_optional{ends.get(self.name, '')}", **options)

    def produce(self, *records: tuple[str, bytes | None]) -> None:
        """Produce values under their keys."""
        self.lab.broker.produce("t", [(key.encode(), value) for key, value in records], partition=0)


@pytest.fixture(params=KINDS)
def stage(
    request: pytest.FixtureRequest, dead: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    """Run each test for each kind of worker."""
    monkeypatch.setenv(typed.DIRECTORY, str(tmp_path))
    return Stage(dead, KINDS[request.param], request.param)


def reading(sensor: str, number: int) -> tuple[str, bytes]:
    """Return a record's key and value."""
    return sensor, f'{{"sensor": "{sensor}", "number": {number}}}'.encode()


def test_payloads_come_decoded_and_each_key_in_order(stage: Stage, wait_for: Any) -> None:
    """300 records of 10 keys."""
    stage.produce(*(reading(f"s{number % 10}", number) for number in range(300)))
    app = stage.app()
    app.start()
    wait_for(lambda: stage.lab.committed() == 300)
    app.stop()
    given = [line.split() for line in typed.lines("values")]
    for sensor in range(10):
        numbers = [int(number) for name, number in given if name == f"s{sensor}"]
        assert numbers == list(range(sensor, 300, 10))


def test_what_does_not_fit_is_rejected_before_the_handler_and_the_others_go_on(
    stage: Stage, read_topic: Any, wait_for: Any, events: Any
) -> None:
    """Its letter has the field and the reason, and no part of the payload; one attempt, despite retries."""
    wrong = ("b", b'{"sensor": "b", "number": "hunter2"}')
    stage.produce(
        reading("a", 1), reading("b", 2), wrong, reading("b", 3), ("c", b"hunter2"), reading("a", 4)
    )
    app = stage.app(retry=ehkafka.Retry(attempts=3, first_s=0.01), on_failure=TO_DEAD)
    app.add_hook(events)
    app.start()
    wait_for(lambda: stage.lab.committed() == 6)
    app.stop()
    given = [line for line in typed.lines("values") if line.startswith("b")]
    assert sorted(typed.lines("values"), key=lambda line: line[-1]) == ["a 1", "b 2", "b 3", "a 4"]
    assert given == ["b 2", "b 3"]
    letters = {letter.value(): dict(letter.headers()) for letter in read_topic("dead", 2)}
    assert letters.keys() == {wrong[1], b"hunter2"}
    for headers in letters.values():
        assert headers["ehkafka-error-type"] == b"ehkafka.RejectRecord"
        assert headers["ehkafka-attempts"] == b"1"
        assert not any(b"hunter2" in (value or b"") for value in headers.values())
    text = letters[wrong[1]]["ehkafka-error-text"].decode()
    assert text == "RejectRecord: the payload does not fit Reading: number: Expected `int`, got `str`"
    assert not events.of(RecordRetried)
    assert all("hunter2" not in repr(event) for event in events.of(HandlerFailed))


def test_a_record_without_value_is_rejected_unless_none_is_asked_for(
    stage: Stage, read_topic: Any, wait_for: Any
) -> None:
    """`Reading` refuses a tombstone as "no value"."""
    stage.produce(("a", None), reading("a", 1))
    app = stage.app(on_failure=TO_DEAD)
    app.start()
    wait_for(lambda: stage.lab.committed() == 2)
    app.stop()
    (letter,) = read_topic("dead", 1)
    assert dict(letter.headers())["ehkafka-error-text"] == b"RejectRecord: no value"
    assert typed.lines("values") == ["a 1"]


def test_a_handler_that_asks_for_none_is_given_it(stage: Stage, wait_for: Any) -> None:
    """`Reading | None`."""
    if stage.name == BOTH:
        pytest.skip("the shape of the call is the same")
    stage.produce(("a", None), reading("a", 1), ("a", None))
    app = stage.optional()
    app.start()
    wait_for(lambda: stage.lab.committed() == 3)
    app.stop()
    assert typed.lines("values") == ["none", "a 1", "none"]


def test_decoding_never_runs_on_the_poll_thread(stage: Stage, wait_for: Any) -> None:
    """But on a worker's, and in the child for processes."""
    stage.produce(*(reading(f"s{number % 5}", number) for number in range(50)))
    app = stage.app(decoder=typed.decode_noting)
    app.start()
    wait_for(lambda: stage.lab.committed() == 50)
    app.stop()
    places = {tuple(line.split(maxsplit=1)) for line in typed.lines("threads")}
    assert places
    assert not {name for _, name in places if name == "ehkafka-poll"}
    if stage.name == "processes":
        assert str(os.getpid()) not in {pid for pid, _ in places}
    else:
        assert {pid for pid, _ in places} == {str(os.getpid())}
        assert all(name.startswith("ehkafka-handle") for _, name in places), places


def test_a_decoder_may_be_made_by_each_process_for_itself(stage: Stage, wait_for: Any) -> None:
    """Once, at its first record, and by a worker."""
    stage.produce(*(reading(f"s{number % 5}", number) for number in range(20)))
    app = stage.app(decoder=per_process(typed.make_decoder))
    app.start()
    wait_for(lambda: stage.lab.committed() == 20)
    app.stop()
    assert len(typed.lines("values")) == 20
    makers = typed.lines("made")
    assert len(makers) == len(set(makers))
    assert (str(os.getpid()) in makers) is (stage.name != "processes")
    # It may ask a registry, and would stop every other task of a loop.
    names = {line.split(maxsplit=1)[1] for line in typed.lines("threads")}
    assert not {name for name in names if name == "ehkafka-poll" or name.endswith("-loop")}, names


def test_a_decoder_that_fails_for_another_reason_is_retried(stage: Stage, wait_for: Any) -> None:
    """A lost connection says nothing about the payload: the record is decoded anew at each attempt."""
    stage.produce(reading("a", 1), reading("a", 2))
    retry = ehkafka.Retry(attempts=3, first_s=0.01)
    app = stage.app(decoder=typed.decode_at_third, retry=retry)
    app.start()
    wait_for(lambda: stage.lab.committed() == 2)
    app.stop()
    assert typed.lines("values") == ["a 1", "a 2"]
    assert typed.lines("attempts")[:3] == ["0 1", "0 2", "0 3"]


def test_middleware_sees_the_record_as_it_came(stage: Stage, wait_for: Any) -> None:
    """And what it hands on is decoded."""
    if stage.name == "processes":
        pytest.skip("a function of this test cannot be imported by a child")
    stage.produce(reading("a", 1))
    seen = []

    def watch(record: Any, call_next: Any) -> Any:
        seen.append(type(record).__name__)
        return call_next(record)

    async def watch_async(record: Any, call_next: Any) -> Any:
        seen.append(type(record).__name__)
        return await call_next(record)

    app = stage.app()
    app.use(watch_async if stage.name == "asyncio" else watch)
    app.start()
    wait_for(lambda: stage.lab.committed() == 1)
    app.stop()
    assert seen == ["Batch" if stage.kind.is_batch else "Record"]
    assert typed.lines("values") == ["a 1"]


def test_answers_of_a_type_are_encoded_by_the_worker_and_what_cannot_be_is_the_records_failure(
    stage: Stage, wait_for: Any, read_topic: Any
) -> None:
    """40 records of 4 keys; one answer is no JSON, and a letter says why."""
    stage.lab.broker.create_topic("out", 1)
    stage.produce(*(reading(f"s{number % 4}", number) for number in range(40)))
    handler = stage.kind.handler.replace("handle", "answer")
    app = stage.app(handler, to="out", on_failure=ehkafka.DeadLetter("dead"))
    app.start()
    wait_for(lambda: stage.lab.committed() == 40)
    app.stop()
    found = read_topic("out", 39)
    for sensor in range(4):
        twice = [2 * number for number in range(sensor, 40, 4) if number != 13]
        answers = [orjson.loads(message.value()) for message in found if message.key() == b"s%d" % sensor]
        assert answers == [{"sensor": f"s{sensor}", "twice": number} for number in twice]
    (letter,) = read_topic("dead", 1)
    headers = dict(letter.headers())
    assert headers["ehkafka-origin-offset"] == b"13"
    assert b"Answer cannot be sent as JSON" in headers["ehkafka-error-text"]
