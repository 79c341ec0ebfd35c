"""The metrics of a supervisor: each member's, asked for over its socket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.kit.waiting import wait_until
from tests.members.conftest import LIMIT_S, SHOP

if TYPE_CHECKING:
    from collections.abc import Callable

SCRAPED = """
    import ehkafka.metrics

    def scrape():
        from confluent_kafka import Producer
        collector = ehkafka.metrics.Collector(app)
        producer = Producer(endpoint.client_properties())
        while True:
            text, _ = ehkafka.metrics.exposition(collector)
            print("SCRAPED", " ".join(text.decode().split("\\n")))
            if sum(one.is_ready for one in app.snapshot().members) == 2:
                for number in range(4):
                    producer.produce("orders", key=f"k{number}", value=b"{}", partition=number)
                producer.flush(10)
            time.sleep(0.3)

    if __name__ == "__main__":
        logging.basicConfig(level=logging.INFO)
        threading.Thread(target=scrape, daemon=True).start()
        app.run(members=2)
"""


def test_each_member_has_series_of_its_own(start: Callable) -> None:
    """What its handlers took, too, which is timed there because the supervisor has a collector."""
    program = start(parts=(SHOP, SCRAPED))
    program.wait_until_ready()

    def value(name: str, member: int) -> float:
        lines = program.stdout.splitlines()
        scraped = next((line for line in reversed(lines) if line.startswith("SCRAPED")), "")
        found = re.search(rf'{name}{{[^}}]*member="{member}"[^}}]*}} (\S+)', scraped)
        return float(found[1]) if found else -1.0

    for member in (1, 2):
        wait_until(lambda m=member: value("ehkafka_member_ready", m) == 1, timeout_s=LIMIT_S)
        wait_until(lambda m=member: value("ehkafka_handler_seconds_count", m) > 0, timeout_s=LIMIT_S)
        wait_until(lambda m=member: value("ehkafka_commits_total", m) > 0, timeout_s=LIMIT_S)
        assert value("ehkafka_partitions", member) == 2
        assert value("ehkafka_member_restarts_total", member) == 0
        assert value("ehkafka_member_silence_seconds", member) >= 0
        assert value("ehkafka_member_live", member) == 1
