"""The rate limit: how many calls start in any stretch of time, and that no worker spins."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from ehkafka.workers.rate import Pace
from tests.kit.clock import VirtualClock
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.inbox import Inbox

PARTITION = TopicPartition("t", 0)


class Bucket(Pace):
    """A bucket whose time is a field."""

    def __init__(self, rate_per_s: float, burst_records: int) -> None:
        super().__init__(rate_per_s, lambda: self.now_s, burst_records)
        self.now_s = 1e6

    def takes(self, times: int) -> int:
        """Return how many tokens there are for so many that want one."""
        return sum(self.take() for _ in range(times))


@pytest.mark.parametrize(
    ("rate_per_s", "burst_records"), [(100.0, 1), (3.0, 7), (0.01, 1), (12_345.6, 1_000)]
)
def test_no_stretch_of_time_lets_more_through_than_the_burst_and_the_rate(
    rate_per_s: float, burst_records: int
) -> None:
    """Random looks at random times: in any t seconds at most burst + rate × t."""
    rng = random.Random(7)
    bucket, taken = Bucket(rate_per_s, burst_records), []
    for _ in range(3_000):
        bucket.now_s += rng.choice(
            (0.0, rng.random() / rate_per_s, 5 * burst_records / rate_per_s * rng.random() ** 8)
        )
        if bucket.take():
            taken.append(bucket.now_s)
    for first in range(len(taken)):
        for last in range(first, min(len(taken), first + 3 * burst_records + 10)):
            allowed = burst_records + rate_per_s * (taken[last] - taken[first])
            assert last - first + 1 <= allowed + 1e-6 * rate_per_s


def test_the_whole_rate_gets_through() -> None:
    """The time that is reported is exact: no worker is woken in vain."""
    bucket = Bucket(7.0, 3)
    bucket.now_s = 10.0
    assert bucket.takes(4) == 3
    for number in range(1, 1_000):
        due_s = bucket.due_s
        assert due_s == pytest.approx(10.0 + number / 7.0)
        bucket.now_s = due_s - 1e-6
        assert not bucket.take()
        bucket.now_s = due_s
        assert bucket.take()


def test_a_rest_fills_the_bucket_no_further_than_its_burst() -> None:
    """Also after a day; and a token that was given back is there again."""
    bucket = Bucket(10.0, 2)
    bucket.now_s += 86_400.0
    assert bucket.takes(3) == 2
    bucket.give_back()
    assert bucket.takes(2) == 1


@pytest.mark.parametrize(("rate_per_s", "burst_records"), [(100.0, 1), (3.0, 7), (12_345.6, 1_000)])
def test_as_many_tokens_are_counted_as_can_be_taken(rate_per_s: float, burst_records: int) -> None:
    """So many workers are woken at once."""
    rng = random.Random(7)
    bucket = Bucket(rate_per_s, burst_records)
    for _ in range(300):
        bucket.now_s += rng.random() * 2 * burst_records / rate_per_s
        bucket.takes(rng.randrange(burst_records + 1))
        tokens = bucket.tokens
        assert abs(bucket.takes(burst_records + 1) - tokens) <= 1  # a sum of floats away


@pytest.fixture
def clock() -> VirtualClock:
    """Begin at some time."""
    return VirtualClock()


def paced(pool: Callable[..., Any], clock: VirtualClock, rate_per_s: float, records: int) -> Any:
    """Return two workers with a rate limit and so many records, each of its own key."""
    made = pool(2, pace=Pace(rate_per_s, clock.now_s), clock=clock.now_s)
    made.receive(made.assign(), 0, [b"k%d" % number for number in range(records)])
    return made


def rests(made: Any, handled: int) -> None:
    """Wait until so many records are handled and all workers sleep; no more get through then."""
    inboxes = made.hub.inboxes.inboxes
    wait_until(lambda: made.handled == handled and all(inbox.asleep for inbox in inboxes))
    assert all(inbox.head is None for inbox in inboxes)
    assert made.handled == handled


def test_records_wait_unseen_while_the_bucket_is_empty(pool: Callable[..., Any], clock: VirtualClock) -> None:
    """None is shown, the poll thread need not check at once, and the next due time is known."""
    made = paced(pool, clock, 20.0, 5)
    rests(made, 2)
    assert made.hub.watch() is False
    assert made.hub.next_due_s() == pytest.approx(clock.now_s() + 0.05)
    wait_until(lambda: made.hub.is_at_rest((), letters=True))
    clock.advance(0.05)
    assert made.hub.next_due_s() is None
    made.hub.watch()
    rests(made, 3)
    for _ in range(2):
        clock.advance(0.05)
        made.hub.watch()
    rests(made, 5)


def test_the_burst_is_a_tenth_of_a_second(pool: Callable[..., Any], clock: VirtualClock) -> None:
    """One at least: else a low rate would never let anything through."""
    for rate_per_s, burst in ((100.0, 10), (0.5, 1), (15.0, 2)):
        made = paced(pool, clock, rate_per_s, 50)
        rests(made, burst)
        with made.hub.locked() as inboxes:
            inboxes.ending.end(list(inboxes.router.epochs.values()))


class Sleeping:
    """A hub with a rate limit whose consumers all sleep, each with records that wait, and who was woken."""

    def __init__(self, rate_per_s: float, keys: list[bytes], consumers: int = 3) -> None:
        self.clock = VirtualClock()
        self.pace = Pace(rate_per_s, self.clock.now_s)
        self.hub = Hub(Inboxes(consumers), self.clock.now_s, self.pace)
        self.woken: list[int] = []
        with self.hub.locked() as inboxes:
            epoch = inboxes.assign(PARTITION, 1)
        batch = [SimulatedMessage("t", 0, n, key) for n, key in enumerate(keys)]
        if batch:
            self.hub.receive([(epoch, batch, keys, (), [1] * len(keys))])
        for inbox in self.hub.inboxes.inboxes:
            inbox.asleep = True
        self.hub.wake = self.wake

    def wake(self, inboxes: Sequence[Inbox]) -> None:
        """Note the next offset of each that is woken."""
        for inbox in inboxes:
            if inbox.asleep:
                inbox.asleep = False
                self.woken.append(inbox.q[0][MESSAGE].offset())

    def watch(self) -> list[int]:
        """Look as the poll thread does; return the next offsets of those that it wakes."""
        self.woken.clear()
        self.hub.watch()
        return self.woken


def test_what_keeps_the_commit_back_most_comes_first() -> None:
    """As many as there are tokens; what runs then leaves no holes above the commit position."""
    bench = Sleeping(20.0, [b"a", b"b", b"c", b"d", b"e", b"f"], consumers=6)
    assert sorted(bench.watch()) == [0, 1]
