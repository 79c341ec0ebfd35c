"""What one simulation is like: sizes, speeds and fault probabilities, all drawn from its seed.

Pure values. A plan is *graceful* when nothing may be repeated in it: partitions move and members come
and go, but every drain may take its time and nothing fails.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, get_args

from ehkafka.lanes.decision import AfterDeadLetter
from ehkafka.workers.batches.taking import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.order import NullKey, Scope

# Longer than any simulation.
NEVER_S = 1e6


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Probabilities end in `_share`, mean times in `_s`; a mean of `NEVER_S` means that it never happens."""

    seed: int
    graceful: bool
    # The load.
    scope: Scope = "partition"
    null_key: NullKey = "spread"
    cooperative: bool = False
    topics: int = 1
    partitions: int = 3
    records: int = 300
    keys: int = 10
    null_keys_share: float = 0.0
    log_start: int = 0
    holes_share: float = 0.0
    produce_s: float = 3.0
    # The members.
    members: int = 2
    workers: int = 4
    backlog_records_max: int = 100
    consume_records_max: int = 20
    parked_records_max: int = 50
    handler_s: float = 0.005
    poll_s: float = 0.01
    drain_s: float = NEVER_S
    opens_late: bool = False
    saves_ranges: bool = False
    # Records go in batches.
    batches: bool = False
    batch_records_max: int = 10
    batch_bytes_max: int | None = None
    batch_wait_s: float = 0.1
    # Keys come from a user's function, which is asked once a record.
    user_keys: bool = False
    # How often the poll thread is held up, while workers go on.
    held_up_share: float = 0.0
    # The number of workers changes.
    resize_s: float = NEVER_S
    metadata_bytes_max: int = 1_000
    # What handlers send and the commits go in transactions; and how long their metadata are at most.
    transactions: bool = False
    transaction_timeout_s: float = 5.0
    saved_bytes_max: int = 1_000
    # How often, at a look, a drain finds that what lies below the highest started offsets fits.
    fits_share: float = 1.0
    commit_interval_s: float = 0.1
    # Between two steps of a worker that are one for the user, and how often there is anything between.
    seam_s: float = 0.005
    seam_share: float = 0.3
    # How often a worker runs in the middle of what the poll thread does under the lock.
    preempt_share: float = 0.02
    # The faults, until `heal_s`.
    heal_s: float = 5.0
    await_share: float = 0.0
    after_dead_letter: AfterDeadLetter = "continue"
    fail_share: float = 0.0
    hold_share: float = 0.0
    skip_share: float = 0.0
    retry_s: float = 0.1
    commands_s: float = NEVER_S
    network_s: float = 0.005
    commit_error_share: float = 0.0
    # The broker takes no commit while the group rebalances: the embedded one does not, Kafka does.
    refuses_in_rounds: bool = False
    request_lost_share: float = 0.0
    answer_lost_share: float = 0.0
    # With transactions: outputs that the broker refuses, requests that take as long as a transaction may, and
    # producers that lose their id while they wait for an answer.
    refuse_share: float = 0.0
    # What a batch of several outputs may have.
    batch_bytes_limit: int | None = None
    slow_request_share: float = 0.0
    producer_lost_share: float = 0.0
    # How often a coordinator that was cut off for a moment answers which offsets are committed.
    old_answer_share: float = 0.0
    session_s: float = NEVER_S
    rebalance_s: float = NEVER_S
    churn_s: float = 1.0
    crash_s: float = NEVER_S
    freeze_s: float = NEVER_S

    @classmethod
    def drawn(cls, seed: int) -> SimulationPlan:
        """Return the plan of a seed: always the same one."""
        rng = random.Random(f"plan {seed}")
        graceful = rng.random() < 0.3
        fits_share = random.Random(f"fits {seed}").choice([1.0, 0.9, 0.0])
        produce_s = rng.choice([0.2, 1.0, 3.0])
        load = _load(rng)
        return cls(
            seed=seed,
            graceful=graceful,
            produce_s=produce_s,
            heal_s=produce_s + 1.0,
            # What is left behind holes is not repeated only where ranges say what is finished above them.
            fits_share=fits_share if load["saves_ranges"] or not graceful else 1.0,
            **load,  # type: ignore[arg-type]
            **({} if graceful else _faults(rng)),  # type: ignore[arg-type]
            # A held key cannot be drained, so what ran meanwhile is repeated.
            after_dead_letter="continue" if graceful else rng.choice(get_args(AfterDeadLetter)),
            **_moves(seed),  # type: ignore[arg-type]
        )

    @classmethod
    def drawn_with_batches(cls, seed: int) -> SimulationPlan:
        """Return the same plan with batches."""
        rng = random.Random(f"batches {seed}")
        plan = cls.drawn(seed)
        return replace(
            plan,
            batches=True,
            # Batches need fewer to meet each other, and many seeds find more than long ones.
            records=plan.records // 3,
            batch_records_max=rng.choice([1, 3, 10, 50]),
            batch_bytes_max=rng.choice([None, None, 3, 20]),
            batch_wait_s=rng.choice([0.0, 0.02, 0.2]),
            # Some batches run for longer than others of their partition wait for them.
            handler_s=rng.choice([0.0005, 0.005, 0.05]),
        )

    @property
    def batch_limits(self) -> BatchLimits:
        """What bounds its batches."""
        return BatchLimits(
            records_max=self.batch_records_max,
            bytes_max=self.batch_bytes_max,
            wait_s_max=self.batch_wait_s,
        )

    @classmethod
    def drawn_with_transactions(cls, seed: int) -> SimulationPlan:
        """Return the same plan with outputs, sent exactly once."""
        rng = random.Random(f"transactions of {seed}")
        plan = replace(
            cls.drawn_with_batches(seed) if rng.random() < 0.2 else cls.drawn(seed),
            transactions=True,
            scope="partition",
            transaction_timeout_s=rng.choice([0.3, 1.0, 5.0]),
        )
        if plan.graceful:
            return replace(plan, transaction_timeout_s=5.0)
        return replace(
            plan,
            records=plan.records // 2,
            saves_ranges=rng.random() < 0.75,
            metadata_bytes_max=rng.choice([12, 32, 40, 1_000, 1_000]),
            saved_bytes_max=rng.choice([25, 32, 1_000, 1_000]),
            refuse_share=rng.choice([0.0, 0.02, 0.1, 0.3]),
            # Apart, so that what is drawn for a seed otherwise stays the same.
            batch_bytes_limit=random.Random(f"batch limit {seed}").choice([None, None, None, 100, 500]),
            slow_request_share=rng.choice([0.0, 0.02, 0.1]),
            producer_lost_share=rng.choice([0.0, 0.05, 0.2]),
            old_answer_share=random.Random(f"old answers {seed}").choice([0.0, 0.3, 0.7]),
        )

    @classmethod
    def drawn_with_short_texts(cls, seed: int) -> SimulationPlan:
        """Return the same plan where commits have room for a few ranges, or for none, and keys wait."""
        plan = replace(cls.drawn_with_transactions(seed), graceful=False, saves_ranges=True)
        return replace(
            plan,
            saved_bytes_max=28 + seed % 12 if seed % 3 else plan.saved_bytes_max,
            metadata_bytes_max=plan.metadata_bytes_max if seed % 3 else 32 + seed % 16,
            keys=40,
            fail_share=0.2,
            hold_share=0.5,
            workers=8,
            backlog_records_max=200,
            commit_interval_s=0.02,
        )

    def describe(self) -> str:
        """Return the plan in one line."""
        return " ".join(f"{entry.name}={getattr(self, entry.name)}" for entry in fields(self))


def _moves(seed: int) -> dict[str, object]:
    # Drawn apart, so that a seed's plan is the same with and without.
    rng = random.Random(f"moves {seed}")
    return {
        "user_keys": rng.random() < 0.3,
        "held_up_share": rng.choice([0.0, 0.0, 0.1]),
        "resize_s": rng.choice([NEVER_S, NEVER_S, 0.05, 0.3]),
    }


def _load(rng: random.Random) -> dict[str, object]:
    return {
        "scope": rng.choice(["partition", "partition", "handler"]),
        "null_key": rng.choice(["spread", "partition"]),
        "cooperative": rng.random() < 0.5,
        "topics": rng.choice([1, 1, 2]),
        "partitions": rng.randint(1, 4),
        "records": rng.randint(100, 350),
        "keys": rng.choice([1, 3, 10, 40]),
        "null_keys_share": rng.choice([0.0, 0.0, 0.2]),
        "log_start": rng.choice([0, 500]),
        "holes_share": rng.choice([0.0, 0.1, 0.4]),
        "members": rng.randint(1, 4),
        "workers": rng.choice([1, 2, 4, 8]),
        "backlog_records_max": rng.choice([5, 30, 200]),
        "consume_records_max": rng.choice([2, 10, 50]),
        "parked_records_max": rng.choice([5, 30, 200]),
        "handler_s": rng.choice([0.0005, 0.005, 0.05]),
        "poll_s": rng.choice([0.002, 0.01, 0.03]),
        "await_share": rng.choice([0.0, 0.0, 0.1, 0.5]),
        "opens_late": rng.random() < 0.2,
        "saves_ranges": rng.random() < 0.3,
        "commit_interval_s": rng.choice([0.005, 0.02, 0.1, 0.5]),
        "seam_s": rng.choice([0.001, 0.01, 0.03]),
        "seam_share": rng.choice([0.1, 0.5]),
        "preempt_share": rng.choice([0.0, 0.02, 0.2]),
        "network_s": rng.choice([0.001, 0.02]),
        "churn_s": rng.choice([0.05, 0.2, 1.0, NEVER_S]),
    }


def _faults(rng: random.Random) -> dict[str, object]:
    return {
        "drain_s": rng.choice([0.0, 0.02, 0.2, NEVER_S]),
        "fail_share": rng.choice([0.0, 0.05, 0.3]),
        "hold_share": rng.choice([0.0, 0.2]),
        "skip_share": rng.choice([0.0, 0.2]),
        "retry_s": rng.choice([0.01, 0.3]),
        "commands_s": rng.choice([0.05, 0.5, NEVER_S]),
        "metadata_bytes_max": rng.choice([12, 1_000]),
        "commit_error_share": rng.choice([0.0, 0.1, 0.5]),
        "request_lost_share": rng.choice([0.0, 0.1]),
        "answer_lost_share": rng.choice([0.0, 0.1]),
        "session_s": rng.choice([0.2, 0.5]),
        "rebalance_s": rng.choice([0.1, 1.0]),
        "crash_s": rng.choice([0.3, 1.0, NEVER_S]),
        "freeze_s": rng.choice([0.2, 0.7, NEVER_S]),
    }


# How a seed may be run, by the option that asks for it.
WAYS: dict[str, Callable[[int], SimulationPlan]] = {
    "": SimulationPlan.drawn,
    "batches": SimulationPlan.drawn_with_batches,
    "transactions": SimulationPlan.drawn_with_transactions,
    "short-texts": SimulationPlan.drawn_with_short_texts,
}
