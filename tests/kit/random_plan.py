"""What a seed of `tests/contract/test_app_at_random.py` draws: records, options, what is done meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Hashable

PARTITIONS = {"t4": 4, "v2": 2}
# The first seeds have one member each: the embedded broker takes seconds to share partitions out anew.
ALONE = 20
BATCHES = ("batches", "async batches")
KINDS = ("threads", "threads", "class", "async", "async", *BATCHES)
ORDERS = ("by_key", "by_partition", "by_topic_partition", "unordered", "by_group")
BY_HAND = ("pause key", "resume key", "retry key", "pause partition", "stop handler", "wait", "wait")
# An async call that is to take longer than its deadline does so once (seconds, and microseconds).
DEADLINE_S, LATE_US = 0.15, 250_000


class Place(NamedTuple):
    """Where a record is in the log."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Group:
    """A key of a user's own class."""

    number: int


def by_group(record: Any) -> Hashable:
    """Order by a number in the value; keys are of several types, and every fourth is none."""
    return key_of(record.value())


def key_of(value: bytes) -> Hashable:
    """Return the same of a value."""
    number = int(value.split()[0])
    return (None, float(number), ("group", number), Group(number))[number % 4]


@dataclass
class Plan:
    """One run. A record's value: its group, how long its call takes (µs), what it does and how often."""

    seed: int
    kind: str
    options: dict[str, Any]
    settings: dict[str, Any]
    acts: list[str]
    topics: tuple[str, ...] = ("t4",)
    # What is written at a time: topic, partition, key and value.
    waves: list[list[tuple[str, int, bytes | None, bytes]]] = field(default_factory=list)
    # The name of each record's key: equal where records must keep their order.
    names: dict[Place, Hashable] = field(default_factory=dict)
    words: dict[Place, bytes] = field(default_factory=dict)


def draw(seed: int) -> Plan:
    """Draw a run."""
    rng = random.Random(seed)
    kind, order = rng.choice(KINDS), rng.choice(ORDERS)
    dead = [ehkafka.DeadLetter("dead", after=after) for after in ("continue", "divert_key", "hold_key")]
    options: dict[str, Any] = {
        "order_by": by_group if order == "by_group" else getattr(ehkafka, order),
        "scope": rng.choice(("partition", "partition", "handler")),
        "null_key": rng.choice(("spread", "partition")),
        "workers": rng.choice((1, 2, 4, 16) if kind in BATCHES else (1, 2, 4, 16, "auto")),
        "retry": ehkafka.Retry(attempts=rng.choice((1, 2, 3)), first_s=rng.choice((0, 0.02)), jitter=0),
        "on_failure": rng.choice((ehkafka.Skip(), ehkafka.Hold(), *dead)),
    }
    if kind in BATCHES:
        options |= {"batch_records_max": rng.choice((1, 7, 50, 500)), "wait_s_max": rng.choice((0, 0.1))}
    elif rng.random() < 0.3:
        options["deadline_s"] = DEADLINE_S if kind == "async" else 5.0
    if kind in ("threads", "async") and rng.random() < 0.3:
        options["raw"] = True
    if kind not in BATCHES and rng.random() < 0.1:
        options["rate_limit"] = 2_000.0
    settings = {
        "commit_interval_s": rng.choice((0.02, 0.1, 1.0)),
        "drain": rng.choice(("started", "all", "running")),
        "consume_records_max": rng.choice((10, 1_000)),
        "loop": "caller" if "async" in kind and rng.random() < 0.3 else "own",
    }
    if rng.random() < 0.25:
        least = max(options.get("batch_records_max", 1), settings["consume_records_max"])
        settings |= {"backlog_records_max": max(least, rng.choice((20, 100))), "parked_records_max": 50}
    acts = rng.choices(BY_HAND, k=rng.choice((0, 0, 5, 15))) + rng.choice(([], ["restart"], ["crash"]))
    acts += ["join"] * (seed >= ALONE and rng.random() < 0.15) + ["lose"] * (rng.random() < 0.1)
    acts += ["resize"] * (2 if kind in ("threads", "async") and rng.random() < 0.15 else 0)
    plan = Plan(
        seed, kind, options, settings, rng.sample(acts, len(acts)), rng.choice((("t4",), ("t4", "v2")))
    )
    _draw_records(plan, rng)
    return plan


def _draw_records(plan: Plan, rng: random.Random) -> None:
    temper = rng.choice(("quick", "quick", "some work", "1 ms", "rarely slow", "slow in the middle"))
    total = {"quick": rng.choice((500, 8_000)), "some work": 2_000, "slow in the middle": 3_000}.get(
        temper, 600
    )
    keys, nulls = rng.choice((1, 5, 40, 400)), rng.choice((0, 0, 0.1, 1.0))
    failing, failing_key = rng.choice((0.0, 0.0, 0.005, 0.04)), rng.choice((None, None, None, 0))
    if failing_key is not None or failing > 0.01:
        # Each key that waits without an end is let go by hand, which takes a turn of the poll loop.
        total = min(total, 60 if "old" in str(plan.options["on_failure"]) else 500)
    if failing and "divert" in str(plan.options["on_failure"]):
        total = min(total, 1_000)  # letters of a key go one after another
    words = [b"fail", b"reject", b"skip", b"later"]
    words += [b"raise"] if plan.kind in BATCHES else [b"defer", b"defer_fail", b"expire"]
    plan.waves = [[] for _ in range(rng.choice((1, 4, 20, 60)))]
    ends = dict.fromkeys([(topic, p) for topic in plan.topics for p in range(PARTITIONS[topic])], 0)
    for number in range(total):
        (topic, partition), chosen = rng.choice(list(ends)), rng.randrange(keys)
        key = None if rng.random() < nulls else b"k%d" % chosen
        cost = {
            "some work": rng.choice((0, 50, 300)),
            "1 ms": 1_000,
            "rarely slow": LATE_US * (rng.random() < 0.01),
            "slow in the middle": 1_000 * (0.45 < number / total < 0.55),
        }.get(temper, 0)
        word, times = b"ok", 0
        if chosen == failing_key and key is not None:
            word, times = b"fail", 1
        elif rng.random() < failing:
            word, times = rng.choice(words), rng.choice((1, 1, 2, 3))
        value = b"%d %d %s %d" % (rng.randrange(40), cost, word, times)
        plan.waves[number * len(plan.waves) // total].append((topic, partition, key, value))
        place = Place(topic, partition, ends[topic, partition])
        ends[topic, partition] += 1
        plan.names[place], plan.words[place] = _name(plan, place, key, value), word


def _name(plan: Plan, place: Place, key: bytes | None, value: bytes) -> Hashable:
    order, where = plan.options["order_by"], place[:2]
    if order in (ehkafka.by_partition, ehkafka.by_topic_partition):
        own: Hashable = place.partition if order is ehkafka.by_partition else where
    else:
        own = key_of(value) if order is by_group else key
    if order is ehkafka.unordered or (own is None and plan.options["null_key"] == "spread"):
        return place
    if own is None:
        return "without", where
    return own if plan.options["scope"] == "handler" else (where, own)
