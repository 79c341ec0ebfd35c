"""Watch 100 000 homes being handled in order, with a broker inside this process.

A simulator produces sensor readings to 16 partitions, an app handles them with strict order per home, and a
checker judges every step. It ends with the checker's verdict: exit code 1 for a violation.

    python examples/demo                            20 seconds, live view
    python examples/demo --records 500000 --json    the summary as JSON and nothing else
    python examples/demo --endpoint localhost:9092  another broker; a missing topic is created

`homes` is the world, `simulator` a process that produces its readings, `session` a run, `view` shows it.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import deque
from pathlib import Path

from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for its `tests.kit`
from session import DemoPlan, Session
from view import shown

from ehkafka import EhkafkaError


class Keeper(logging.Handler):
    """Keeps the last warnings: the view has the terminal to itself, so it shows the newest one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of any logger, on any thread."""
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


def run_demo(plan: DemoPlan, *, as_json: bool) -> int:
    """Run the demo, print its summary on stdout and return the exit code."""
    keeper = Keeper()
    logging.getLogger().addHandler(keeper)
    with plan.endpoint, shown(as_json=as_json, warnings=keeper.lines) as show:
        summary = Session(plan, show).run()
    if as_json:
        print(json.dumps(summary.as_dict(), indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(summary.text())
    sys.stderr.writelines(f"{line}\n" for line in keeper.lines)
    return summary.exit_code


def main() -> int:
    """Read the options, run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="how long to produce (default: 20)")
    parser.add_argument("--records", type=int, help="how many readings to produce, however long it takes")
    parser.add_argument(
        "--endpoint", default="embedded", metavar="HOST:PORT", help="a broker's bootstrap address"
    )
    parser.add_argument("--topic", default="ehkafka-demo-readings", help="the topic to use there")
    parser.add_argument("--workers", type=int, default=16, help="worker threads of the handler (default: 16)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, without a live view")
    asked = parser.parse_args()
    if min(asked.workers, asked.records or 1, asked.seconds or 1) <= 0:
        parser.error("--workers, --records and --seconds are greater than 0")
    try:
        plan = DemoPlan(
            address=asked.endpoint,
            topic=asked.topic,
            workers=asked.workers,
            seconds=asked.seconds,
            records=asked.records,
        )
        return run_demo(plan, as_json=asked.json)
    except EhkafkaError as error:
        sys.stderr.write(f"demo: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
