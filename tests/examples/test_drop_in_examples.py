"""The drop-in's examples, before and after, print the same."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ehkafka.testing import EmbeddedBroker
from tests.kit.running import ended

EXAMPLES = Path(__file__).parents[2] / "examples" / "drop_in"
RECORDS = 60


def test_before_and_after_print_the_same() -> None:
    """confluent-kafka's loop, the same with the import changed, the app, and the adapted handler."""
    with EmbeddedBroker({"readings": 2}) as broker:
        broker.produce("readings", [(f"room-{number % 5}", b"1") for number in range(RECORDS)])

        def run(name: str) -> str:
            done = ended(sys.executable, name, broker.bootstrap, str(RECORDS), cwd=EXAMPLES)
            assert done.returncode == 0, done.stderr
            return done.stdout

        with ThreadPoolExecutor() as pool:
            shown = list(pool.map(run, ("confluent_loop.py", "consumer.py", "app.py", "adapted.py")))
    assert shown[0].splitlines() == [f"room-{number}: {RECORDS // 5}" for number in range(5)]
    assert set(shown) == {shown[0]}


def test_slow_commits_share_requests() -> None:
    """Where commits are slow, the drop-in sends fewer, in both programs."""
    done = ended(sys.executable, "slow_commits.py", "3", cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    rows = [re.findall(r"(\d+) requests", line) for line in done.stdout.splitlines()[1:]]
    assert len(rows) == 2
    assert all(int(ours) < int(theirs) for theirs, ours in rows), done.stdout


def test_the_first_step_changes_one_line() -> None:
    """Except the docstring and the group's name, so that both can be run, the loop is the same."""

    def code(name: str) -> list[str]:
        text = (EXAMPLES / name).read_text()
        return text.split('"""', 2)[2].splitlines()

    changed = [
        (before, after)
        for before, after in zip(code("confluent_loop.py"), code("consumer.py"), strict=True)
        if before != after and "group.id" not in before
    ]
    assert changed == [("from confluent_kafka import Consumer", "from ehkafka import Consumer")]
