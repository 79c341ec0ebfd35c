"""Payload types, for every kind of worker: what a handler is given, what is rejected, where it is decoded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import ehkafka
from ehkafka.codecs import per_process
from ehkafka.events import HandlerFailed, RecordRetried
from tests.contract import typed_handlers as typed
from tests.contract.letters import TO_DEAD
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.kinds import Stage


KINDS = ("threads", "tasks", "batches", "processes")
pytestmark = pytest.mark.parametrize("stage", KINDS, indirect=True)


@pytest.fixture(autouse=True)
def _types(stage: Stage, dead: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the handlers of payload types."""
    assert stage.lab is dead
    monkeypatch.setenv(typed.DIRECTORY, str(tmp_path))
    stage.handlers = typed


def produce(stage: Stage, *records: tuple[str, bytes | None]) -> None:
    """Produce values under their keys."""
    stage.lab.broker.produce("t", [(key.encode(), value) for key, value in records], partition=0)


def reading(sensor: str, number: int) -> tuple[str, bytes]:
    """Return a record's key and value."""
    return sensor, f'{{"sensor": "{sensor}", "number": {number}}}'.encode()


@pytest.mark.parametrize("how", ["", "with the record", "without a history"])
def test_payloads_come_decoded_and_each_key_in_order(stage: Stage, how: str) -> None:
    """300 records of 10 keys; also with the record, and without a history, which wraps each call."""
    if how and stage.name != "threads":
        pytest.skip("the shape of the call is the same")
    produce(stage, *(reading(f"s{number % 10}", number) for number in range(300)))
    more: dict[str, Any] = {"history": False} if how.startswith("without") else {}
    stage.start(handler="handle_both" if how.startswith("with the") else "handle", **more)
    wait_until(lambda: stage.lab.committed() == 300)
    given = [line.split() for line in typed.lines("values")]
    for sensor in range(10):
        numbers = [int(number) for name, number in given if name == f"s{sensor}"]
        assert numbers == list(range(sensor, 300, 10))


def test_what_does_not_fit_is_rejected_before_the_handler_and_the_others_go_on(
    stage: Stage, read_topic: Any, events: Any
) -> None:
    """Its letter has the field and the reason, and no part of the payload; one attempt, despite retries."""
    wrong = ("b", b'{"sensor": "b", "number": "hunter2"}')
    produce(
        stage, reading("a", 1), reading("b", 2), wrong, reading("b", 3), ("c", b"hunter2"), reading("a", 4)
    )
    stage.start(retry=ehkafka.Retry(attempts=3, first_s=0.01), on_failure=TO_DEAD)
    wait_until(lambda: stage.lab.committed() == 6)
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


def test_a_record_without_value_is_rejected_unless_none_is_asked_for(stage: Stage, read_topic: Any) -> None:
    """`Reading` refuses a tombstone as "no value"."""
    produce(stage, ("a", None), reading("a", 1))
    stage.start(on_failure=TO_DEAD)
    wait_until(lambda: stage.lab.committed() == 2)
    (letter,) = read_topic("dead", 1)
    assert dict(letter.headers())["ehkafka-error-text"] == b"RejectRecord: no value"
    assert typed.lines("values") == ["a 1"]


def test_decoding_never_runs_on_the_poll_thread(stage: Stage) -> None:
    """But on a worker's, and in the child for processes."""
    produce(stage, *(reading(f"s{number % 5}", number) for number in range(50)))
    stage.start(decoder=typed.decode_noting)
    wait_until(lambda: stage.lab.committed() == 50)
    places = {tuple(line.split(maxsplit=1)) for line in typed.lines("threads")}
    assert places
    assert not {name for _, name in places if name == "ehkafka-poll"}
    if stage.name == "processes":
        assert str(os.getpid()) not in {pid for pid, _ in places}
    else:
        assert {pid for pid, _ in places} == {str(os.getpid())}
        assert all(name.startswith("ehkafka-handle") for _, name in places), places


def test_a_decoder_may_be_made_by_each_process_for_itself(stage: Stage) -> None:
    """Once, at its first record, and by a worker."""
    produce(stage, *(reading(f"s{number % 5}", number) for number in range(20)))
    stage.start(decoder=per_process(typed.make_decoder))
    wait_until(lambda: stage.lab.committed() == 20)
    assert len(typed.lines("values")) == 20
    makers = typed.lines("made")
    assert len(makers) == len(set(makers))
    assert (str(os.getpid()) in makers) is (stage.name != "processes")
    # It may ask a registry, and would stop every other task of a loop.
    names = {line.split(maxsplit=1)[1] for line in typed.lines("threads")}
    assert not {name for name in names if name == "ehkafka-poll" or name.endswith("-loop")}, names


def test_a_decoder_that_fails_for_another_reason_is_retried(stage: Stage) -> None:
    """A lost connection says nothing about the payload: the record is decoded anew at each attempt."""
    produce(stage, reading("a", 1), reading("a", 2))
    retry = ehkafka.Retry(attempts=3, first_s=0.01)
    stage.start(decoder=typed.decode_at_third, retry=retry)
    wait_until(lambda: stage.lab.committed() == 2)
    assert typed.lines("values") == ["a 1", "a 2"]
    assert typed.lines("attempts")[:3] == ["0 1", "0 2", "0 3"]


def test_middleware_sees_the_record_as_it_came(stage: Stage) -> None:
    """And what it hands on is decoded."""
    if stage.name == "processes":
        pytest.skip("a function of this test cannot be imported by a child")
    produce(stage, reading("a", 1))
    seen = []

    def watch(record: Any, call_next: Any) -> Any:
        seen.append(type(record).__name__)
        return call_next(record)

    async def watch_async(record: Any, call_next: Any) -> Any:
        seen.append(type(record).__name__)
        return await call_next(record)

    app = stage.app()
    app.use(watch_async if stage.name == "tasks" else watch)
    app.start()
    wait_until(lambda: stage.lab.committed() == 1)
    assert seen == ["Batch" if stage.name == "batches" else "Record"]
    assert typed.lines("values") == ["a 1"]


def test_answers_of_a_type_are_encoded_by_the_worker_and_what_cannot_be_is_the_records_failure(
    stage: Stage, read_topic: Any
) -> None:
    """40 records of 4 keys; one answer is no JSON, and a letter says why."""
    stage.lab.broker.create_topic("out", 1)
    produce(stage, *(reading(f"s{number % 4}", number) for number in range(40)))
    stage.start(handler="answer", to="out", on_failure=ehkafka.DeadLetter("dead"))
    wait_until(lambda: stage.lab.committed() == 40)
    found = read_topic("out", 39)
    for sensor in range(4):
        twice = [2 * number for number in range(sensor, 40, 4) if number != 13]
        answers = [orjson.loads(message.value()) for message in found if message.key() == b"s%d" % sensor]
        assert answers == [{"sensor": f"s{sensor}", "twice": number} for number in twice]
    (letter,) = read_topic("dead", 1)
    headers = dict(letter.headers())
    assert headers["ehkafka-origin-offset"] == b"13"
    assert b"Answer cannot be sent as JSON" in headers["ehkafka-error-text"]
