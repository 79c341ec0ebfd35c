"""Bundles: sent in one go and let go together, and taken apart where anything is not as usual."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs.book import ADDED_MAX, NotSentError, OutputBook
from ehkafka.outputs.bundle import Bundle
from ehkafka.outputs.first_answers import FirstAnswers
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.refusals import Refusals
from ehkafka.outputs.sender import SLOW_S
from tests.kit.simulated.message import SimulatedMessage
from tests.outputs.sender_bench import REFUSED, Bench, Report


def bundles_of(bench: Bench) -> int:
    """Return how many bundles are on their way."""
    return sum(isinstance(one, Bundle) for one in bench.sender._in_flight)


def answer_for(bench: Bench, value: str, code: int | None = None) -> None:
    """Answer one output, wherever it stands."""
    sent = bench.main.client.sent
    (place,) = [place for place, (one, *_) in enumerate(sent) if one == value.encode()]
    one, key, on_delivery = sent.pop(place)
    on_delivery(None if code is None else KafkaError(code), Report(key, one))


@pytest.fixture
def bundled() -> Bench:
    """Return a bench whose outputs come in bundles."""
    return Bench(way="bundles")


def test_what_came_together_is_one_bundle_and_is_let_go_when_all_of_it_is_safe(bundled: Bench) -> None:
    """Answers of several partitions come in any order."""
    bundled.add("a0 b1 c2")
    bundled.turn()
    assert (bundled.main.client.values(), bundles_of(bundled)) == ("a0 b1 c2", 1)
    answer_for(bundled, "c2")
    answer_for(bundled, "a0")
    bundled.turn()
    assert (bundled.waiting, bundled.book.count()) == ({0, 1, 2}, 3)
    answer_for(bundled, "b1")
    bundled.turn()
    assert (bundled.waiting, bundled.book.count(), bundles_of(bundled)) == (set(), 0, 0)


def test_what_is_safe_of_a_bundle_does_not_go_again_by_the_next_producer(bundled: Bench) -> None:
    """The others do, in their order; so does what their producer had not been given."""
    bundled.add("a0 b1 a2 b3")
    bundled.turn()
    answer_for(bundled, "b1")
    bundled.main.is_lost = True
    bundled.turn()
    assert bundled.main.client.values() == "a0 a2 b3"
    assert bundled.waiting == {0, 2, 3}


def test_a_refused_output_of_a_bundle_goes_alone_and_the_others_are_known_by_their_answers(
    bundled: Bench,
) -> None:
    """An answer names key and value, and those of one key come in their order."""
    bundled.add("a0 b1 a2 c3")
    bundled.turn()
    answer_for(bundled, "a0")
    answer_for(bundled, "b1", REFUSED)
    answer_for(bundled, "a2", KafkaError._PURGE_INFLIGHT)
    bundled.main.is_lost = True
    bundled.turn()
    assert bundled.waiting == {1, 2, 3}
    assert bundled.main.client.values() == "a2 c3"
    bundled.main.client.answer(2)
    bundled.turn(2)
    assert bundled.second.client.values() == "b1"
    assert bundled.waiting == {1}


def test_equal_outputs_of_one_key_are_answered_in_their_order(bundled: Bench) -> None:
    """Nothing tells them apart but their order."""
    bundled.add("a0 a0 a0")
    bundled.turn()
    bundled.main.client.answer(1)
    bundled.main.client.answer(1, KafkaError._PURGE_INFLIGHT)
    bundled.turn()
    assert bundled.waiting == {1, 2}


def full_after(bench: Bench, room: int) -> None:
    """Let the client take so many outputs more."""
    client, produce = bench.main.client, bench.main.client.produce
    room += len(client.sent)

    def produce_while_there_is_room(*arguments: Any, **headers: Any) -> None:
        if len(client.sent) >= room:
            raise BufferError
        produce(*arguments, **headers)

    client.produce = produce_while_there_is_room  # type: ignore[method-assign]


def test_a_full_client_is_given_the_rest_later(bundled: Bench) -> None:
    """From where it stopped, before what was made later."""
    full_after(bundled, 2)
    bundled.add("a0 a1 a2")
    bundled.turn()
    bundled.add("a3")
    assert bundled.main.client.values() == "a0 a1"
    del bundled.main.client.produce
    bundled.turn()
    assert bundled.main.client.values() == "a0 a1 a2 a3"
    bundled.main.client.answer(4)
    bundled.turn()
    assert bundled.book.count() == 0


def test_a_bundle_half_sent_is_taken_apart_where_it_stands(bundled: Bench) -> None:
    """The first half is with its producer, the other one goes as it would have gone."""
    full_after(bundled, 2)
    bundled.add("a0 b1 a2 c3")
    bundled.turn()
    answer_for(bundled, "b1", REFUSED)
    bundled.main.is_lost = True
    bundled.turn()
    assert bundled.main.client.values() == "a0 a2 c3"


def end_some(bench: Bench) -> str:
    """End one of two epochs that a bundle has outputs of; return what the next producer is given."""
    other = bench.assign(1)
    bench.add("a0")
    bench.add("b1", other)
    bench.add("a2")
    bench.turn()
    assert bundles_of(bench) == 1
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
    assert end_some(bundled) == "a0 b1 a2"


def test_what_is_added_as_its_epoch_ends_is_dropped(bundled: Bench) -> None:
    """A worker looked before the end, and added after it."""
    bundled.assignment.ended = True
    bundled.book.end([bundled.assignment])
    message = SimulatedMessage("t", 0, 0, b"a")
    bundled.book.added.append((bundled.outlet, bundled.assignment, message, b"a", b"a0", None))
    bundled.turn()
    assert (bundled.main.client.values(), bundled.book.count()) == ("", 0)
    with pytest.raises(NotSentError, match="taken away"):
        bundled.add("a1")


@pytest.mark.parametrize("is_new", [False, True], ids=["taken apart", "as it is"])
def test_what_is_dropped_before_the_end_is_asked_for_is_taken_back_all_the_same(
    bundled: Bench, *, is_new: bool
) -> None:
    """An epoch ends, the sender goes round, and only then somebody asks and waits for it."""
    other = bundled.assign(1)
    full_after(bundled, 2)
    bundled.add("a0 a1 a2", other)
    bundled.turn()
    other.ended = True
    bundled.turn(0 if is_new else 1)
    assert bundled.book.end([other])
    bundled.sender._purges.append(threading.Event())
    del bundled.main.client.produce
    bundled.turn()
    assert (bundled.main.client.values(), bundled.book.count()) == ("", 0)


def test_what_is_answered_waits_no_longer_than_a_moment_for_the_rest_of_its_bundle(bundled: Bench) -> None:
    """One output's partition may be stuck; neither commits nor room wait for it then."""
    now_s = 0.0
    bundled.sender._clock = lambda: now_s
    bundled.add("a0 b1 c2")
    bundled.turn()
    answer_for(bundled, "a0")
    answer_for(bundled, "b1")
    for _ in range(2):  # the first look finds answers, the second one no new ones
        now_s += SLOW_S
        bundled.turn()
        assert bundled.book.count() == 3
        now_s += 0.001
        bundled.turn()
    assert (bundled.waiting, bundled.book.count()) == ({2}, 1)
    answer_for(bundled, "c2")
    bundled.turn()
    assert (bundled.waiting, bundled.sender._in_flight) == (set(), set())


def test_what_is_left_of_a_half_sent_bundle_waits_for_a_refused_output(bundled: Bench) -> None:
    """Refused meanwhile, by a broker that goes on with its producer."""
    bundled.add("a0")
    bundled.turn()
    full_after(bundled, 1)
    bundled.add("c1 a2")
    bundled.turn()
    answer_for(bundled, "a0", KafkaError._UNKNOWN_TOPIC)
    full_after(bundled, 0)
    bundled.turn()
    del bundled.main.client.produce
    bundled.turn(2)
    assert bundled.main.client.values() == "c1"


def test_the_sender_does_not_sleep_while_somebody_sorts_in(bundled: Bench) -> None:
    """What was added stands nowhere for a moment: not where workers put it, and not where it is taken."""
    bundled.add("a0")
    with bundled.book._lock:
        entry = bundled.book.added.popleft()
        asked = threading.Thread(target=lambda: found.append(bundled.book.has_new()))
        found: list[bool] = []
        asked.start()
        asked.join(0.05)
        bundled.book.added.append(entry)
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
    assert bundles_of(bench) == 1


def test_mutant_no_key_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second output would pass the first one, where that is refused."""
    monkeypatch.setattr(FirstAnswers, "unknown", lambda *_: set())
    assert refuse_the_first(Bench(way="bundles", at_once=False)) == "a0 b1 a2 b3"


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


def test_an_output_that_the_client_does_not_take_is_alone_at_fault(bundled: Bench) -> None:
    """Too large a message, say: it is refused, and the others go."""
    produce = bundled.main.client.produce

    def takes_no_b(topic: str, value: bytes, *rest: Any, **headers: Any) -> None:
        if value.startswith(b"b"):
            raise ValueError("no")
        produce(topic, value, *rest, **headers)

    bundled.main.client.produce = takes_no_b  # type: ignore[method-assign]
    bundled.add("a0 b1 a2 b3")
    bundled.turn()
    assert bundled.main.client.values() == "a0 a2"
    bundled.main.client.answer(2)
    bundled.turn(2)
    assert bundled.second.client.values() == "b1"
    assert bundled.waiting == {1, 3}


def test_headers_go_with_each_output() -> None:
    """An outlet makes bundles of JSON, too, which has a content type."""
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


def test_workers_wait_where_many_outputs_are_not_looked_at() -> None:
    """Their bytes are counted by then, so that a stuck sender costs no more memory than it may."""
    book = OutputBook(bytes_max=10_000)
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000)
    assignment = Bench().assign()
    for offset in range(ADDED_MAX):
        outlet.post_plain(assignment, SimulatedMessage("t", 0, offset, b"k"), b"0123456789")  # type: ignore[arg-type]
    assert len(book.added) == ADDED_MAX
    assert not book.is_full
    book.has_waiting(assignment)
    assert book.is_full


class Chance:
    """A broker behind both producers that answers, inside of `poll`, what a seed says."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bench = Bench(way="bundles", at_once=self.rng.random() < 0.5)
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
        """Answer some or all: a key's in the order in which it was sent, those of several in any."""
        client = self.bench.main.client
        for _ in range(len(client.sent) if self.calm else self.rng.randrange(5)):
            if not client.sent or self.bench.main.is_lost:
                break
            key = self.rng.choice(sorted({value[:1] for value, *_ in client.sent}))
            value = next(value for value, *_ in client.sent if value[:1] == key)
            if not self.calm and self.rng.random() < 0.03:
                self.refused += 1
                self.bench.main.is_lost = True
                answer_for(self.bench, value.decode(), REFUSED)
            else:
                self.write(value)
                answer_for(self.bench, value.decode())
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
            self.bench.add(f"{self.rng.choice('abc')}{self.number}")
            self.number += 1
        client = self.bench.main.client
        if not self.calm and self.rng.random() < 0.1:
            full_after(self.bench, self.rng.randrange(3))
        self.bench.turn()
        client.__dict__.pop("produce", None)


@pytest.mark.parametrize("seed", range(100))
def test_at_random_no_output_is_lost_and_none_passes_another(seed: int) -> None:
    """Full clients, lost producers, refused outputs: each key's outputs are written once, in their order."""
    chance = Chance(seed)
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
    everything = sorted(one for numbers in chance.written.values() for one in numbers)
    assert everything == list(range(chance.number))
    assert all(numbers == sorted(numbers) for numbers in chance.written.values())
