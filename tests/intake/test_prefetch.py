"""Whether the queue of librdkafka can outgrow its limits, which count no keys and headers; and what then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.checks.target import as_own_group
from ehkafka.intake.backpressure import TOUCH_S
from ehkafka.intake.prefetch import Prefetch
from tests.intake.test_backpressure import Bench
from tests.kit.simulated.message import SimulatedMessage

LIMITS = {"queued.min.messages": 10_000, "queued.max.messages.kbytes": 8_192}
LARGE = 100_000


def message(*, value: int = 0, key: int = 8, header: int = 0) -> Any:
    """Return a record of these sizes."""
    headers = [("h", b"x" * header)] if header else None
    return SimulatedMessage("a", 0, 0, b"x" * key, b"x" * value, headers=headers)


def prefetch(**limits: object) -> Prefetch:
    """Return one of a client with these limits."""
    made = Prefetch()
    made.use({**LIMITS, **{name.replace("_", "."): value for name, value in limits.items()}})
    return made


@pytest.mark.parametrize(
    ("record", "limits", "outgrows"),
    [
        (message(value=200), {}, False),
        (message(value=LARGE), {}, False),  # their bytes are counted
        (message(value=LARGE, header=LARGE // 2), {}, False),
        (message(header=LARGE), {}, True),
        (message(key=LARGE), {}, True),
        (message(value=LARGE, key=LARGE, header=LARGE), {}, True),
        (message(header=1_000), {}, False),  # 10 000 of them are not much more than 8 MB
        (message(header=LARGE), {"queued_min_messages": 100}, False),
        (message(header=LARGE), {"queued_min_messages": "100"}, False),
        (message(header=LARGE), {"queued_max_messages_kbytes": 2_097_151}, False),
    ],
)
def test_the_queue_outgrows_its_limits_where_most_of_a_record_is_not_counted(
    record: Any, limits: dict[str, object], outgrows: bool
) -> None:
    """Only where that is more than twice what is meant: ordinary records are left with the client."""
    queue = prefetch(**limits)
    queue.note(record)
    assert queue.outgrows is outgrows


def test_the_size_that_counts_is_that_of_the_last_records() -> None:
    """A large one among many makes no difference for long, and large ones that begin to come soon do."""
    queue = prefetch()
    queue.note(message(value=200))
    for _ in range(2):
        queue.note(message(header=LARGE))
    assert queue.outgrows
    for _ in range(30):
        queue.note(message(value=200))
    assert not queue.outgrows


@pytest.fixture
def bench() -> Bench:
    """Return a handler whose client would hold far more than it should."""
    made = Bench(records_max=400)
    made.pressure.prefetch.use(LIMITS)
    made.pressure.prefetch.note(message(header=LARGE))
    return made


def fill(bench: Bench) -> None:
    """Do as the poll loop does until nothing more is taken: an even share of each partition."""
    while wanted := bench.wanted():
        for number in range(wanted):
            bench.receive(1, partition=number % 4, keys=1_000)
    bench.pressure.bound_prefetch(bench.client)


def test_what_the_client_must_not_hold_is_received_and_then_all_is_paused(bench: Bench) -> None:
    """The backlog is full, the client fetches nothing, and goes on once a quarter of it is left."""
    fill(bench)
    assert bench.routes["a"].hub.tally.backlog_records == 400
    assert sorted(bench.client.paused) == [0, 1, 2, 3]
    bench.run(24)
    bench.pressure.resume(bench.client)
    assert not bench.client.resumed
    bench.run(376)
    bench.pressure.resume(bench.client)
    assert sorted(bench.client.resumed) == [0, 1, 2, 3]


def test_all_is_paused_as_long_as_outputs_wait(bench: Bench) -> None:
    """While the broker takes no outputs nothing is received: the client must not fetch on meanwhile."""
    waits = [True]
    bench.context.delivery = SimpleNamespace(is_over_bound=lambda: waits[0])
    assert bench.wanted() == 0
    for _ in range(3):
        bench.pressure.bound_prefetch(bench.client)
        bench.now_s += TOUCH_S
        bench.pressure.resume(bench.client)
    assert sorted(bench.client.paused) == [0, 1, 2, 3]
    assert not bench.client.resumed
    waits[0] = False
    bench.pressure.resume(bench.client)
    assert sorted(bench.client.resumed) == [0, 1, 2, 3]


def test_ordinary_records_are_never_paused_for_it() -> None:
    """They are withheld, which costs nothing."""
    bench = Bench()
    bench.pressure.prefetch.use(LIMITS)
    bench.pressure.prefetch.note(message(value=200))
    bench.receive(130, keys=130)
    assert bench.wanted() == 0
    bench.pressure.bound_prefetch(bench.client)
    assert not bench.client.paused


def test_a_command_holds_little_of_what_it_reads() -> None:
    """A person reads it: a thousand records with large headers are much already."""
    assert as_own_group({"queued.min.messages": 10_000, "group.id": "g"})["queued.min.messages"] == 1_000
