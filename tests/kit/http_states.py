"""Canned states of an app as its HTTP server gives them, made of the values that a real one is made of."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ehkafka.records import TopicPartition
from ehkafka.run.steer.action import refusals
from ehkafka.run.steer.keys import KeyState
from ehkafka.telemetry.snapshot import (
    HandlerSnapshot,
    Health,
    MemberSnapshot,
    PartitionSnapshot,
    Snapshot,
    Unfinished,
)
from ehkafka.workers.attempt_clock import OverdueAttempt

if TYPE_CHECKING:
    from collections.abc import Sequence

STACK: Final = """Traceback (most recent call last):
  File "shop/readings.py", line 41, in handle
    store(parse(record.value))
  File "shop/parsing.py", line 17, in parse
    raise ReadingError
shop.parsing.ReadingError"""
HOSTILE: Final = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
FALLS_POINTS: Final = 50
# Functions that a call which hangs has gone through.
DEEP: Final = ("handle", "store", "client", "pool", "connection", "socket")
# Turns what follows around, moves the cursor, hides.
CONTROLS: Final = "a\u202eb\u0000c\u001b[2Jd\u200be\u2028f\ud800g\t\u05e9\u05dc\u05d5\u05dd"


def partition(
    number: int, *, topic: str = "readings", lag: int | None = 12, **given: Any
) -> PartitionSnapshot:
    """Return a partition that is well, but for what is given."""
    usual: dict[str, Any] = {
        "epoch": 1,
        "backlog_records": 8,
        "backlog_bytes": 4096,
        "parked_records": 0,
        "parked_bytes": 0,
        "parked_full_key": None,
        "lanes": 6,
        "watermark": 91_000 + number,
        "committed": 90_990 + number,
        "received_records": 91_008,
        "finished_records": 91_000,
        "skipped_records": 0,
        "dead_lettered_records": 0,
        "paused": False,
        "oldest": Unfinished(
            91_000 + number, "'home-1'", 0.04, 1, "running", status="running", handler="store_reading"
        ),
    }
    return PartitionSnapshot(TopicPartition(topic, number), lag_records=lag, **usual | given)


def key(offset: int = 91_003, *, of: int = 3, topic: str = "readings", **given: Any) -> KeyState:
    """Return a poison key that is held, but for what is given."""
    usual: dict[str, Any] = {
        "key": "home-4711",
        "handler": "store_reading",
        "status": "waiting: on hold",
        "state": "ReadingError: a reading without a sensor",
        "age_s": 252.4,
        "attempts": 5,
        "last_error": "ReadingError: a reading without a sensor",
        "records": 132,
        "is_blocking": True,
        "value": '{"home": 4711, "sensor": null, "value": 21.4}',
    }
    return KeyState(name=f"{topic}/{of}@{offset}", topic=topic, partition=of, offset=offset, **usual | given)


def on_its_way(number: int, age_s: float = 0.04) -> KeyState:
    """Return the oldest record of a busy partition: it blocks in name only."""
    given: dict[str, Any] = {
        "status": "running",
        "state": "running",
        "attempts": 1,
        "last_error": "",
        "records": 1,
    }
    return key(91_000 + number, of=number, key=f"home-{number}", age_s=age_s, value="{}", **given)


def history(*, lag: int = 9_000, points: int = 720, falls: int = 0, oldest_s: float = 0.05) -> dict[str, Any]:
    """Return the last hour: waves, and a lag that grew or falls by so much with each point at its end."""
    now_s = time.time()
    waves = [math.sin(n / 40) for n in range(points)]
    handled = [1950 + 260 * wave + 40 * math.sin(n / 6) for n, wave in enumerate(waves)]
    left = [max(0, points - 1 - n) for n in range(points)]
    return {
        "at_s": [now_s - 5 * n for n in left],
        "handled_per_s": handled,
        "received_per_s": [value + 70 * math.sin(n / 9) for n, value in enumerate(handled)],
        "lag_records": [max(0, lag + falls * min(n, FALLS_POINTS)) for n in left],
        "backlog_records": [int(900 + 500 * wave + 60 * math.sin(n / 5)) for n, wave in enumerate(waves)],
        "oldest_s": [max(0.03, oldest_s - 5 * n) for n in left],
    }


def snapshot(
    partitions: Sequence[PartitionSnapshot], *, members: tuple[MemberSnapshot, ...] = ()
) -> Snapshot:
    """Return the picture of a running app with these partitions."""
    return Snapshot(
        "shop",
        "broker.example:9093",
        "running",
        time.time(),
        7_300.0,
        tuple(partitions),
        sum(one.received_records for one in partitions),
        sum(one.finished_records for one in partitions),
        14,
        3,
        0,
        0,
        {},
        members=members,
        handlers=(HandlerSnapshot("store_reading", ("readings",), 16, {}, workers_auto=(1, 256)),),
    )


def state(
    partitions: Sequence[PartitionSnapshot],
    keys: Sequence[KeyState],
    *,
    health: Health | None = None,
    members: tuple[MemberSnapshot, ...] = (),
    **given: Any,
) -> dict[str, Any]:
    """Return an answer of `GET /state`."""
    now_s = time.time()
    usual: dict[str, Any] = {
        "snapshot": snapshot(partitions, members=members).as_dict(),
        "health": (Health() if health is None else health).as_dict(),
        "keys": [one.as_dict() for one in keys],
        "errors": [],
        "events": [
            {"at_s": now_s - n * 61, "level": "info", "kind": "CommitDone", "sentence": text}
            for n, text in enumerate(["committed 8 partitions"] * 4 + ["assigned 8 partitions of readings"])
        ],
        "history": history(),
        "process": {
            "pid": 4242,
            "version": "0.9.0",
            "python": "3.13.1",
            "uptime_s": 7_300.0,
            "rss_bytes": 88_080_384,
            "threads": 21,
            "host": "shop-7c9f",
        },
        "letters": {"topics": ["readings.dead"]},
    }
    return usual | given


def healthy() -> dict[str, Any]:
    """Return an app that is well: eight partitions, whose oldest records are on their way."""
    parts = [partition(n, lag=10 + n) for n in range(8)]
    return state(parts, [on_its_way(n) for n in range(8)], history=history(lag=108))


def poisoned(**given: Any) -> dict[str, Any]:
    """Return an app where one key is held, and another waits for its next attempt, since minutes."""
    held = Unfinished(
        91_003,
        "'home-4711'",
        252.4,
        5,
        "ReadingError: a reading without a sensor",
        "ReadingError",
        is_on_hold=True,
        status="waiting: on hold",
    )
    stuck: dict[str, Any] = {"lag": 5_210, "parked_records": 132, "committed": 91_003, "oldest": held}
    partitions = [partition(n, lag=9 + 3 * n) if n != 3 else partition(3, **stuck) for n in range(8)]
    waiting = key(
        91_250,
        of=5,
        key="home-12",
        status="waiting: retry",
        state="waiting 14 s for its next attempt",
        age_s=31.0,
        attempts=3,
        last_error="TimeoutError: the store did not answer within 5 s",
        records=4,
        value='{"home": 12, "sensor": "door", "value": 1}',
    )
    other = key(
        91_400, of=6, key="home-99", status="waiting: paused", state="paused", records=2, is_blocking=False
    )
    now_s = time.time()
    reason = (
        "readings/3 stands at 91003 since 4 min 12 s: key 'home-4711' is held after 5 attempts (ReadingError)"
    )
    usual: dict[str, Any] = {
        "health": Health((reason,)),
        "errors": [
            {
                "kind": "ReadingError",
                "count": 25,
                "last_at_s": now_s - 251,
                "sentence": "readings/3@91003, key 'home-4711': a reading without a sensor",
                "stack": STACK,
            },
            {
                "kind": "TimeoutError",
                "count": 3,
                "last_at_s": now_s - 17,
                "sentence": "readings/5@91250, key 'home-12': the store did not answer within 5 s",
                "stack": STACK.replace("ReadingError", "TimeoutError"),
            },
        ],
        "history": history(lag=5_348, falls=-100, oldest_s=252.4),
        "events": [
            {
                "at_s": now_s - 17,
                "level": "warning",
                "kind": "AttemptFailed",
                "sentence": "readings/5@91250 failed: TimeoutError",
            },
            {"at_s": now_s - 61, "level": "info", "kind": "CommitDone", "sentence": "committed 8 partitions"},
            {
                "at_s": now_s - 252,
                "level": "warning",
                "kind": "KeyHeld",
                "sentence": "key 'home-4711' is held after 5 attempts",
            },
            {
                "at_s": now_s - 7_290,
                "level": "info",
                "kind": "Assigned",
                "sentence": "assigned readings 0 to 7",
            },
        ],
    }
    keys = [key(), waiting, *(on_its_way(n) for n in (0, 1, 2, 4)), other]
    return state(partitions, keys, **usual | given)


def hanging() -> dict[str, Any]:
    """Return an app where a call has not returned for minutes, far past its deadline; the rest is well."""
    stuck = Unfinished(
        91_003, "'home-4711'", 340.0, 0, "running", deadline_s=5.0, is_stuck=True, status="running"
    )
    partitions = [
        partition(n, lag=9) if n != 3 else partition(3, lag=5_210, paused=True, oldest=stuck)
        for n in range(5)
    ]
    given: dict[str, Any] = {"status": "running", "state": "running", "age_s": 340.0, "attempts": 0}
    one = key(last_error="", refused=refusals("running", "store_reading", has_letters=True), **given)
    reason = "readings[3]@91003, key home-4711: attempt 1 has run for 339 s in handler 'store_reading'."
    made = state(partitions, [one, on_its_way(0)], health=Health((reason,)))
    made["keys"][0]["stack"] = "".join(
        f'  File "shop/{name}.py", line {n}, in {name}\n    {name}_more()\n' for n, name in enumerate(DEEP)
    )
    call = OverdueAttempt(
        "store_reading", TopicPartition("readings", 3), 91_003, "home-4711", 1, 339.0, 5.0, "ehkafka-store-4"
    )
    made["snapshot"]["overdue"] = [asdict(call) | {"partition": {"topic": "readings", "partition": 3}}]
    return made


def hostile() -> dict[str, Any]:
    """Return one in which all texts of others are attacks on a page and a terminal."""
    text = HOSTILE + CONTROLS + "x" * 2_000
    bad: dict[str, Any] = {
        "key": text[:200],
        "last_error": text,
        "value": text[:400],
        "handler": HOSTILE,
        "state": text,
    }
    event = {"at_s": time.time(), "level": HOSTILE, "kind": HOSTILE, "sentence": text}
    made = state(
        [partition(3, topic="readings")],
        [key(**bad), key(7, of=2, is_blocking=False, **bad)],
        health=Health((text,), (text,)),
        errors=[{"kind": HOSTILE, "count": 1, "last_at_s": time.time(), "sentence": text, "stack": text}],
        events=[event],
        letters={"topics": [HOSTILE]},
    )
    made["snapshot"]["handlers"] = [
        {"handler": HOSTILE, "topics": [HOSTILE], "workers": 1, "is_stopped": False}
    ]
    return made


def crowded(count: int = 1_000) -> dict[str, Any]:
    """Return one with a thousand partitions, of which every second is held up by a key."""
    keys = [key(n, of=n, key=f"home-{n}") for n in range(0, count, 2)] + [
        on_its_way(n) for n in range(1, count, 2)
    ]
    return state([partition(n, lag=n) for n in range(count)], keys)


def with_members() -> dict[str, Any]:
    """Return a supervisor with two members, one of them waiting for its next start."""
    parts = [partition(n) for n in range(4)]
    well = MemberSnapshot(0, 501, "running", 0, True, True, 0.4, "", snapshot(parts))
    ended = MemberSnapshot(1, None, "waiting", 3, False, False, None, "it was killed by signal 9", None)
    return state(parts, [on_its_way(0)], members=(well, ended))


def noted_by_members() -> dict[str, Any]:
    """Return a supervisor of two members with errors of their own, the second of which does not answer."""
    poison = poisoned()
    parts = [partition(n) for n in range(4)]
    members = tuple(
        MemberSnapshot(number, 500 + number, "running", 0, number == 1, True, 0.4, "", snapshot(parts))
        for number in (1, 2)
    )
    owners = (None, 2, 1, 1)
    errors = [one | {"member": number} for number in (1, 2) for one in poison["errors"][:1]]
    errors[1] |= {"count": 7, "stack": STACK.replace("line 41", "line 99")}
    events = [one | {"member": owner} for one, owner in zip(poison["events"], owners, strict=True)]
    keys = [one | {"member": 1, "stack": STACK} for one in poison["keys"]]
    shown = state(parts, [], members=members, errors=errors, events=events)
    return shown | {"keys": keys, "silent_members": [2]}
