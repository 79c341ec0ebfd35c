"""Members that end once they have caught up, and the supervisor with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ehkafka.errors import UnfinishedError
from ehkafka.members.restarts import ends_all
from tests.members.conftest import LIMIT_S, SHOP

if TYPE_CHECKING:
    from collections.abc import Callable

# Before the first member starts.
PRODUCING = """
    if __name__ == "__main__":
        from confluent_kafka import Producer
        producer = Producer(endpoint.client_properties())
        for number in range(40):
            producer.produce("orders", key=f"k{number}", value=b"{}", partition=number % 4)
        producer.flush(10)
"""
MAIN = """
    if __name__ == "__main__":
        logging.basicConfig(level=logging.INFO)
        app.run(members=2, until="caught_up", settle_s=2)
        print("SUM", app.snapshot().finished_records, app.state)
"""
# Each record that is handled brings another one: who takes a partition over must not follow these.
MORE = SHOP.replace(
    'print(f"HANDLED',
    'more(record.partition()); print(f"HANDLED',
).replace(
    "    @app.on_start",
    """\
    def more(partition):
        from confluent_kafka import Producer
        producer = Producer(endpoint.client_properties())
        producer.produce("orders", key="more", value=b"{}", partition=partition)
        producer.flush(10)

    @app.on_start""",
    1,
)
FAILING = SHOP.replace("workers=4", "workers=4, on_failure=ehkafka.Hold()").replace(
    'print(f"HANDLED', 'assert record.key() != b"k7"; print(f"HANDLED'
)


def test_the_run_ends_when_all_members_are_done(start: Callable) -> None:
    """Each ends by itself and is not started again, and every record was handled.

    Some twice: the embedded broker refuses the commits of the first member while the other one joins.
    """
    program = start(parts=(SHOP, PRODUCING, MAIN))
    assert program.end(LIMIT_S) == 0
    assert re.search(r"SUM \d+ stopped", program.stdout)
    assert len(set(re.findall(r"HANDLED (orders\[\d\]@\d+)", program.stdout))) == 40
    assert sorted(re.findall(r"Member (\d) has caught up", program.stderr)) == ["1", "2"]
    assert len(re.findall(r"STARTED", program.stdout)) == 2
    assert "restarts in" not in program.stderr


def test_a_partition_that_moves_keeps_the_end_that_it_had(start: Callable) -> None:
    """The supervisor has asked where the logs end, once for all: what handlers add is not followed."""
    program = start(parts=(MORE, PRODUCING, MAIN))
    assert program.end(LIMIT_S) == 0
    handled = set(re.findall(r"HANDLED (orders\[\d\]@\d+)", program.stdout))
    assert {f"orders[{partition}]@{offset}" for partition in range(4) for offset in range(10)} <= handled


def test_a_record_that_waits_ends_all_of_them(start: Callable) -> None:
    """The member that has it names it, and its exit code is the supervisor's."""
    program = start(parts=(FAILING, PRODUCING, MAIN))
    program.wait_for_match(r"UnfinishedError: Member \d: Not caught up.*orders\[3\]@1 key k7", 1, LIMIT_S)
    assert program.end(LIMIT_S) == 1  # Python's own, for an exception that is not caught


def test_a_code_that_names_what_waits_ends_all_only_in_a_run_with_an_end() -> None:
    """Otherwise a member that could not finish in time is started again."""
    code = UnfinishedError.exit_code
    assert ends_all(code, has_worked=True, has_end=True)
    assert not ends_all(code, has_worked=True)
    assert not ends_all(0, has_worked=True, has_end=True)
