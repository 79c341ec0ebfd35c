"""Row 18: a process is frozen for longer than its session, loses its partitions, and comes back."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.fault_runs import SCALE, judge
from tests.kit.faults.http_proxy import HttpProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.azurite import Azurite
    from tests.kit.http_server import Request

pytestmark = pytest.mark.broker

# 30 to 90 s ten times, scaled by twenty; longer than the session.
FREEZES = 2
FREEZE_S = 2.5
SESSION_MS = 2000
RATE = 500.0


def checkpoints(seen: list[tuple[Request, int | None]]) -> dict[str, list[int]]:
    """Return the sequence numbers that were written, by blob, in the order of the writes."""
    found: dict[str, list[int]] = {}
    for request, status in seen:
        if request.method == "PUT" and status == 201 and "/checkpoint/" in request.path:
            number = int(request.headers["x-ms-meta-sequencenumber"])
            found.setdefault(request.path.partition("?")[0], []).append(number)
    return found


def test_row_18_who_was_frozen_takes_neither_commit_nor_mirror_back(
    kafka: Any, stage_on: Callable[..., Any], azurite: Azurite, tmp_path: Path
) -> None:
    """0 stale commits, and no blob ever goes back, while two members freeze in turn under load."""
    stage = stage_on(kafka)
    container = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(container)
    secret = tmp_path / "storage"
    with HttpProxy(azurite.address) as proxy:
        secret.write_text(azurite.connection_string(proxy.address))
        arguments = ["--storage", str(secret), "--container", container, "--handler-ms", "0-2"]
        arguments += ["--setting", "commit_interval_s=0.2", "--setting", "drain_s=2"]
        session = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 150}
        members = [stage.member(name, *arguments, consumer=session) for name in ("first", "second")]
        load = stage.load(RATE)
        load.start()
        for member in members:
            member.start()
        for number in range(FREEZES * SCALE):
            frozen, other = members[number % 2], members[1 - number % 2]
            wait_until(lambda: all(m.assigned() for m in members), lambda: f"both own some\n{stage.logs()}")
            frozen.suspend()
            frozen_s = time.monotonic()
            wait_until(lambda other=other: len(other.assigned()) == 8, lambda: f"a take-over\n{stage.logs()}")
            wait_until(lambda began_s=frozen_s: time.monotonic() - began_s >= FREEZE_S, "the freeze's end")
            frozen.resume()
        load.stop()
        stage.wait_until_committed(load.ends)
        stage.stop_members()
        written = checkpoints(proxy.seen)
    judge(stage, thawed=True)
    assert {int(path.rpartition("/")[2]): numbers[-1] + 1 for path, numbers in written.items()} == load.ends
    for path, numbers in written.items():
        assert numbers == sorted(numbers), path
