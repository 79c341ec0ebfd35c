"""Bundles and batches: sent in one go and let go together, and taken apart where anything is not as usual."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.outputs.answered import Answered
from ehkafka.outputs.batch import OutputBatch
from ehkafka.outputs.book import ADDED_MAX, PARTS, NotSentError, OutputBook
from ehkafka.outputs.bundle import Bundle
from ehkafka.outputs.first_answers import FirstAnswers
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.properties import may_report_at_once, output_properties
from ehkafka.outputs.refusals import Refusals
from ehkafka.settings import Settings
from tests.kit.simulated.message import SimulatedMessage
from tests.outputs.sender_bench import REFUSED, Bench, Report, partition_of

REPORTS = ("each", "the last")


def batches_of(bench: Bench) -> int:
    """Return how many batches are on their way."""
    return sum(isinstance(one, OutputBatch) for one in bench.sender._in_flight)


def answer_for(bench: Bench, value: str, code: int | None = None) -> None:
    """Answer one output, wherever it stands, if anybody waits for its report."""
    sent = bench.main.client.sent
    (place,) = [place for place, (one, *_) in enumerate(sent) if one == value.encode()]
    one, key, on_delivery = sent.pop(place)
    if on_delivery is not None:
        on_delivery(None if code is None else KafkaError(code), Report(key, one))


@pytest.fixture
def bundled() -> Bench:
    """Return a bench whose outputs come in bundles, and whose batches are reported as a whole."""
    return Bench(way="bundles")


@pytest.fixture
def reported() -> Bench:
    """Return one each of whose outputs is reported."""
    return Bench(way="bundles", reports="each")


@pytest.mark.parametrize("reports", REPORTS)
def test_what_came_together_for_a_partition_is_let_go_when_all_of_it_is_safe(reports: str) -> None:
    """Answers of several partitions come in any order."""
    bench = Bench(way="bundles", reports=reports)
    bench.add("a0 b1 c2 a3")
    bench.turn()
    assert (bench.main.client.values(), batches_of(bench)) == ("a0 a3 b1 c2", 3)
    answer_for(bench, "c2")
    answer_for(bench, "a0")
    bench.turn()
    assert (bench.waiting, bench.book.count()) == ({0, 1, 3}, 3)
    answer_for(bench, "b1")
    answer_for(bench, "a3")
    bench.turn()
    assert (bench.waiting, bench.book.count(), batches_of(bench)) == (set(), 0, 0)


def test_what_is_safe_does_not_go_again_by_the_next_producer(reported: Bench) -> None:
    """The others do, in their order."""
    reported.add("a0 b1 a2 b3")
    reported.turn()
    answer_for(reported, "b1")
    reported.main.is_lost = True
    reported.turn()
    assert reported.main.client.values() == "a0 a2 b3"
    assert reported.waiting == {0, 2, 3}


def test_a_batch_whose_last_output_has_no_report_goes_again_as_a_whole(bundled: Bench) -> None:
    """Nobody knows how much of it is written, and it begins with its first one: a repeat, in order."""
    bundled.add("a0 b1 a2 b3")
    bundled.turn()
    answer_for(bundled, "b1")
    answer_for(bundled, "a0")
    answer_for(bundled, "a2")
    bundled.main.is_lost = True
    bundled.turn()
    assert bundled.main.client.values() == "b1 b3"
    assert bundled.waiting == {1, 3}


def test_a_refused_output_goes_alone_and_the_others_are_known_by_their_answers(reported: Bench) -> None:
    """Answers come in the order of the partition."""
    reported.add("a0 b1 a2 c3")
    reported.turn()
    answer_for(reported, "a0")
    answer_for(reported, "b1", REFUSED)
    answer_for(reported, "a2", KafkaError._PURGE_INFLIGHT)
    reported.main.is_lost = True
    reported.turn()
    assert reported.waiting == {1, 2, 3}
    assert reported.main.client.values() == "a2 c3"
    reported.main.client.answer(2)
    reported.turn(2)
    assert reported.second.client.values() == "b1"
    assert reported.waiting == {1}


def test_of_a_refused_batch_each_goes_alone(bundled: Bench) -> None:
    """Whichever the broker meant: in its order, and later ones of the key wait."""
    bundled.add("a0 d1 a2")
    bundled.turn()
    answer_for(bundled, "a0")
    answer_for(bundled, "d1")
    answer_for(bundled, "a2", REFUSED)
    bundled.main.is_lost = True
    bundled.add("a3 d4 b5")
    bundled.turn(2)
    assert bundled.main.client.values() == "b5"
    for alone in ("a0 d1", "d1 a2", "a2"):
        assert bundled.second.client.values() == alone
        bundled.second.client.answer()
        bundled.turn(2)
    assert bundled.main.client.values() == "b5 d4 a3"
    assert bundled.waiting == {3, 4, 5}


def test_an_answer_of_which_nobody_knows_the_order_is_nobodys(reported: Bench) -> None:
    """What was queued is given back before what was on its way is answered."""
    reported.add("a0 a1 a2")
    reported.turn()
    answer_for(reported, "a2", KafkaError._PURGE_QUEUE)
    answer_for(reported, "a0")
    answer_for(reported, "a1", REFUSED)
    reported.main.is_lost = True
    reported.turn(2)
    assert reported.waiting == {1, 2}
    assert reported.second.client.values() == "a1"


def full_after(bench: Bench, room: int) -> None:
    """Let the client take so many outputs more."""
    client, produce, produce_batch = bench.main.client, bench.main.client.produce, bench.main.client.produce_batch
    room += len(client.sent)

    def produce_while_there_is_room(*arguments: Any, **headers: Any) -> None:
        if len(client.sent) >= room:
            raise BufferError
        produce(*arguments, **headers)

    def batch_while_there_is_room(topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        left = max(0, room - len(client.sent))
        for message in messages[left:]:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        return produce_batch(topic, messages[:left], partition)

    client.produce = produce_while_there_is_room  # type: ignore[method-assign]
    client.produce_batch = batch_while_there_is_room  # type: ignore[method-assign]


def has_room_again(bench: Bench) -> None:
    """Let it take all once more."""
    for name in ("produce", "produce_batch"):
        bench.main.client.__dict__.pop(name, None)


def test_a_full_client_is_given_the_rest_later(reported: Bench) -> None:
    """From where it stopped, before what was made later."""
    full_after(reported, 2)
    reported.add("a0 a1 a2")
    reported.turn()
    reported.add("a3")
    assert reported.main.client.values() == "a0 a1"
    has_room_again(reported)
    reported.turn()
    assert reported.main.client.values() == "a0 a1 a2 a3"
    reported.main.client.answer(4)
    reported.turn()
    assert reported.book.count() == 0


def test_a_full_client_is_given_a_batch_later(bundled: Bench) -> None:
    """All of it, before what was made later."""
    full_after(bundled, 0)
    bundled.add("a0 a1")
    bundled.turn()
    bundled.add("a2")
    assert bundled.main.client.values() == ""
    has_room_again(bundled)
    bundled.turn()
    assert bundled.main.client.values() == "a0 a1 a2"


def test_a_batch_of_which_some_was_taken_goes_again_by_another_producer(bundled: Bench) -> None:
    """There would be no report of it: the last one, which has it, was not taken."""
    full_after(bundled, 2)
    bundled.add("a0 a1 a2")
    bundled.turn(2)
    assert len(bundled.main.clients) == 2
    assert bundled.main.client.values() == "a0 a1 a2"
    bundled.main.client.answer(3)
    bundled.turn()
    assert bundled.book.count() == 0


def test_a_batch_half_sent_is_taken_apart_where_it_stands(reported: Bench) -> None:
    """The first half is with its producer, the other one goes as it would have gone."""
    full_after(reported, 2)
    reported.add("a0 b1 b2 c3")
    reported.turn()
    assert reported.main.client.values() == "a0 b1"
    answer_for(reported, "b1", REFUSED)
    reported.main.is_lost = True
    reported.turn()
    assert reported.main.client.values() == "a0 c3"


@pytest.mark.parametrize(
    ("asked", "at_once"),
    [
        ({}, True),
        ({"linger.ms": 5}, True),
        ({"message.send.max.retries": 3}, False),
        ({"retries": 3}, False),
        ({"queue.buffering.max.messages": 1_000}, False),
        ({"queue.buffering.max.kbytes": 1_000}, False),
        ({"partitioner": "random"}, False),
        ({"partitioner": "consistent_random"}, True),
    ],
    ids=repr,
)
def test_one_report_stands_for_others_only_where_the_client_gives_nothing_up(
    asked: dict[str, Any], *, at_once: bool
) -> None:
    """Where it does, a later message can be written without an earlier one; or a batch is taken in part."""
    settings = Settings(group="g", start="earliest", producer=asked)
    properties = output_properties(ehkafka.Endpoint.kafka("localhost:9092"), settings)
    assert may_report_at_once(properties) is at_once


def end_some(bench: Bench) -> str:
    """End one of two epochs that a bundle has outputs of; return what the next producer is given."""
    other = bench.assign(1)
    bench.add("a0")
    bench.add("b1", other)
    bench.add("a2")
    bench.turn()
    assert batches_of(bench) == 2
    other.ended = True
    assert bench.book.end([other])
    bench.sender._purges.append(done := threading.Event())
    bench.turn()
    assert done.is_set()
    return bench.main.client.values()


def test_the_end_of_an_epoch_takes_its_outputs_out_of_a_bundle(bundled: Bench) -> None:
    """The others go again; nothing of the ended one is counted any more."""
    assert end_some(bundled) == "a0 a2"
    bundled.main.client.answer(2)
    bundled.turn()
    assert bundled.book.count() == 0


def test_mutant_an_ended_epoch_stays_in_its_bundle(bundled: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old owner's output stays with its producer, and may come behind the new owner's."""
    monkeypatch.setattr(Bundle, "is_dropped", False)
    assert end_some(bundled) == "a0 a2 b1"


def test_what_is_added_as_its_epoch_ends_is_dropped(bundled: Bench) -> None:
    """A worker looked before the end, and added after it."""
    bundled.assignment.ended = True
    bundled.book.end([bundled.assignment])
    message = SimulatedMessage("t", 0, 0, b"a")
    bundled.book.added.extend((bundled.outlet, bundled.assignment, message, b"a", b"a0", None))
    bundled.turn()
    assert (bundled.main.client.values(), bundled.book.count()) == ("", 0)
    with pytest.raises(NotSentError, match="taken away"):
        bundled.add("a1")


@pytest.mark.parametrize("is_new", [False, True], ids=["taken apart", "as it is"])
def test_what_is_dropped_before_the_end_is_asked_for_is_taken_back_all_the_same(
    reported: Bench, *, is_new: bool
) -> None:
    """An epoch ends, the sender goes round, and only then somebody asks and waits for it."""
    other = reported.assign(1)
    full_after(reported, 2)
    reported.add("a0 a1 a2", other)
    reported.turn()
    other.ended = True
    reported.turn(0 if is_new else 1)
    assert reported.book.end([other])
    reported.sender._purges.append(threading.Event())
    has_room_again(reported)
    reported.turn()
    assert (reported.main.client.values(), reported.book.count()) == ("", 0)


def test_what_is_left_of_a_half_sent_batch_waits_for_a_refused_output(reported: Bench) -> None:
    """Refused meanwhile, by a broker that goes on with its producer."""
    reported.add("a0")
    reported.turn()
    full_after(reported, 1)
    reported.add("d1 a2")
    reported.turn()
    answer_for(reported, "a0", KafkaError._UNKNOWN_TOPIC)
    full_after(reported, 0)
    reported.turn()
    has_room_again(reported)
    reported.turn(2)
    assert reported.main.client.values() == "d1"


def test_the_sender_does_not_sleep_while_somebody_sorts_in(bundled: Bench) -> None:
    """What was added stands nowhere for a moment: not where workers put it, and not where it is taken."""
    bundled.add("a0")
    with bundled.book._lock:
        entry = [bundled.book.added.popleft() for _ in range(PARTS)]
        asked = threading.Thread(target=lambda: found.append(bundled.book.has_new()))
        found: list[bool] = []
        asked.start()
        asked.join(0.05)
        bundled.book.added.extend(entry)
    asked.join()
    assert found == [True]


def refuse_the_first(bench: Bench) -> str:
    """Let the first output of a producer be refused; return what of its key went with it, and of others."""
    bench.add("a0 b1 a2 b3")
    bench.turn()
    return bench.main.client.values()


def test_a_key_without_an_answer_is_taken_out_of_its_bundle() -> None:
    """Its second output waits for the first one's answer; once it is there, the key stays in bundles."""
    bench = Bench(way="bundles", at_once=False)
    assert refuse_the_first(bench) == "a0 b1"
    bench.main.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "b1 a2"
    bench.add("a4 b5 a6")
    bench.turn()
    assert bench.main.client.values() == "b1 a2 a4 a6"
    assert batches_of(bench) == 1


def test_mutant_no_key_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second output would pass the first one, where that is refused."""
    monkeypatch.setattr(FirstAnswers, "partitions", lambda _first, _topic, keys: list(map(partition_of, keys)))
    assert refuse_the_first(Bench(way="bundles", at_once=False)) == "a0 a2 b1 b3"


def refuse_and_add(bench: Bench) -> str:
    """Let an output be refused, and add a later one of its key with others; return what goes at once."""
    bench.add("a0")
    bench.turn()
    answer_for(bench, "a0", REFUSED)
    bench.main.is_lost = True
    bench.turn()
    bench.add("a1 b2")
    bench.turn()
    return bench.main.client.values()


def test_what_waits_for_a_refused_output_is_taken_out_of_its_bundle(bundled: Bench) -> None:
    """The others of the bundle do not wait."""
    assert refuse_and_add(bundled) == "b2"


def test_mutant_it_stays_in_its_bundle(bundled: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later one would pass the refused one."""
    monkeypatch.setattr(Refusals, "keys", lambda *_: set())
    assert refuse_and_add(bundled) == "a1 b2"


def test_an_output_that_the_client_does_not_take_is_alone_at_fault(reported: Bench) -> None:
    """Headers that are none, say: it is refused, and the others go."""
    produce = reported.main.client.produce

    def takes_no_b(topic: str, value: bytes, *rest: Any, **headers: Any) -> None:
        if value.startswith(b"b"):
            raise ValueError("no")
        produce(topic, value, *rest, **headers)

    reported.main.client.produce = takes_no_b  # type: ignore[method-assign]
    reported.add("a0 b1 a2 b3 e4")
    reported.turn()
    assert reported.main.client.values() == "a0 a2 e4"
    reported.main.client.answer(3)
    reported.turn(2)
    assert reported.second.client.values() == "b1"
    assert reported.waiting == {1, 3}


def test_a_batch_that_the_client_does_not_take_is_tried_one_by_one(bundled: Bench) -> None:
    """Its error says nothing of the one that is at fault, nor that only one is."""
    client = bundled.main.client

    def takes_none(_topic: str, messages: list[dict[str, Any]], _partition: int) -> int:
        for message in messages:
            message["_error"] = KafkaError(KafkaError._UNKNOWN_PARTITION)
        return 0

    client.produce_batch = takes_none  # type: ignore[method-assign]
    bundled.add("a0 d1")
    bundled.turn()
    assert client.values() == "a0 d1"
    assert None not in [on_delivery for *_, on_delivery in client.sent]


def test_headers_go_with_each_output() -> None:
    """An outlet makes bundles of JSON, too, which has a content type; no call takes many such at once."""
    book = OutputBook()
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000)
    assignment = Bench().assign()
    for offset, value in enumerate([b"a", {"n": 1}, "text", b"x" * 500]):
        message: Any = SimulatedMessage("t", 0, offset, b"k")
        outlet.post_plain(assignment, message, value)
    (bundle,) = book.take_new()
    assert isinstance(bundle, Bundle)
    outputs = book.take_all()
    assert [one.value for one in outputs] == [b"a", b'{"n":1}', b"text", b"x" * 500]
    assert [bool(one.headers) for one in outputs] == [False, True, True, False]
    assert outputs[1].headers == [("content-type", b"application/json")]
    batch, given = OutputBatch(outlet, bundle.columns, 0), []
    produced = SimpleNamespace(produce=lambda *_, headers=None: given.append(headers))
    batch.send(produced, Answered(), at_once=True)
    assert [bool(one) for one in given] == [False, True, True, False]


def test_workers_wait_where_many_outputs_are_not_looked_at() -> None:
    """Their bytes are counted by then, so that a stuck sender costs no more memory than it may."""
    book = OutputBook(bytes_max=10_000)
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000)
    assignment = Bench().assign()
    for offset in range(ADDED_MAX):
        outlet.post_plain(assignment, SimulatedMessage("t", 0, offset, b"k"), b"0123456789")  # type: ignore[arg-type]
    assert len(book.added) == ADDED_MAX * PARTS
    assert not book.is_full
    book.has_waiting(assignment)
    assert book.is_full


class Chance:
    """A broker behind both producers that answers, inside of `poll`, what a seed says."""

    def __init__(self, seed: int, reports: str) -> None:
        self.rng = random.Random(seed)
        self.bench = Bench(way="bundles", at_once=self.rng.random() < 0.5, reports=reports)
        # By key, in the order in which it was written; how many were sent, lost producers and refusals.
        self.written: dict[str, list[int]] = {}
        self.number = self.lost = self.refused = 0
        self.calm = False
        self.bench.main.serve = self.answer_some  # type: ignore[method-assign]
        self.bench.second.serve = self.answer_alone  # type: ignore[method-assign]

    def write(self, value: bytes) -> None:
        """Note what is in the output topic now."""
        self.written.setdefault(value.decode()[0], []).append(int(value[1:]))

    def answer_some(self, _timeout_s: float) -> None:
        """Answer some or all: a partition's in the order in which it was sent, those of several in any."""
        client = self.bench.main.client
        for _ in range(len(client.sent) if self.calm else self.rng.randrange(5)):
            if not client.sent or self.bench.main.is_lost:
                break
            partition = self.rng.choice(sorted({partition_of(key) for _, key, _ in client.sent}))
            values = [value for value, key, _ in client.sent if partition_of(key) == partition]
            if not self.calm and self.rng.random() < 0.03:
                self.refused += 1
                self.bench.main.is_lost = True
                for value in values[: self.rng.randrange(1, 4)]:
                    answer_for(self.bench, value.decode(), REFUSED)
            else:
                self.write(values[0])
                answer_for(self.bench, values[0].decode())
        if not self.calm and self.rng.random() < 0.05:
            self.lost += 1
            self.bench.main.is_lost = True

    def answer_alone(self, _timeout_s: float) -> None:
        """Take what was refused before."""
        client = self.bench.second.client
        if client.sent and (self.calm or self.rng.random() < 0.3):
            self.write(client.sent[0][0])
            client.answer()

    def turn(self) -> None:
        """Add some, and let the sender go round, perhaps with a client that is full."""
        for _ in range(0 if self.calm else self.rng.randrange(4)):
            self.bench.add(f"{self.rng.choice('abcdg')}{self.number}")
            self.number += 1
        client = self.bench.main.client
        if not self.calm and self.rng.random() < 0.1:
            full_after(self.bench, self.rng.randrange(3))
        self.bench.turn()
        for name in ("produce", "produce_batch"):
            client.__dict__.pop(name, None)


@pytest.mark.parametrize("reports", REPORTS)
@pytest.mark.parametrize("seed", range(100))
def test_at_random_no_output_is_lost_and_none_passes_another(seed: int, reports: str) -> None:
    """Full clients, lost producers, refused outputs: each key's are written in their order.

    Once, where each is reported; else what is not reported is written again, from some earlier one on.
    """
    chance = Chance(seed, reports)
    for _ in range(200):
        chance.turn()
    chance.calm = True
    for _ in range(3 * chance.number):
        chance.turn()
    assert chance.lost
    assert chance.refused
    assert chance.bench.book.count() == chance.bench.book._bytes == 0
    assert chance.bench.waiting == set()
    assert not chance.bench.book._bundles
    assert not chance.bench.book.is_full
    everything = [one for numbers in chance.written.values() for one in numbers]
    assert sorted(set(everything)) == list(range(chance.number))
    if reports == "each":
        assert len(everything) == chance.number
    for numbers in chance.written.values():
        expected = sorted(set(numbers))
        for before, after in pairwise(numbers):
            # The next one, or one that was written already: nothing is left out by a repeat either.
            assert after <= before or after == expected[expected.index(before) + 1]
