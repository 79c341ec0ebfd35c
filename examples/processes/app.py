"""Find how often each home's heating cycles, on every core: `ehkafka run examples/processes/app.py`.

A record is a home's day, a temperature a minute; finding its rhythm keeps a core busy for a while, which
threads would share one of. The handler is called in processes that import this file afresh: what it needs
stands at the top level, and what a process keeps open is made in `on_worker_start`.
"""

import logging
import os

import ehkafka

LAGS = range(10, 121)
broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="heating", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")


@app.on_worker_start
def set_up() -> None:
    """Configure logging in each process: it starts without any."""
    logging.basicConfig(level=logging.INFO, format=f"%(message)s (process {os.getpid()})")


@app.handler(
    "days",
    workers=ehkafka.Processes(2),
    deadline_s=30,  # a process that passes it is ended and replaced: one failed attempt for this record
    retry=ehkafka.Retry(attempts=2),
    on_failure=ehkafka.Skip(),
)
def find_rhythm(record: ehkafka.Record) -> None:
    """Log after how many minutes a day's temperatures repeat themselves best."""
    temperatures: list[float] = record.json()
    mean = sum(temperatures) / len(temperatures)
    around = [temperature - mean for temperature in temperatures]

    def likeness(lag: int) -> float:
        return sum(now * later for now, later in zip(around, around[lag:], strict=False)) / (
            len(around) - lag
        )

    logging.getLogger("heating").info(
        "%s: the heating cycles every %d min", record.partition_key, max(LAGS, key=likeness)
    )
