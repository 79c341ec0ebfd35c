"""Find how often each home's heating cycles, on every core: `python examples/processes/app.py`.

A record is a home's day, a temperature a minute; finding its rhythm keeps a core busy for a while, which
threads would share one of. Each process imports this file: what the handler needs is at the top level, and
what a process keeps open is made in `on_worker_start`.
"""

import logging
import math
import os
import sys

import ehkafka

LAGS = range(10, 121)
app = ehkafka.App(group="heating", endpoint=ehkafka.Endpoint.embedded({"days": 2}), start="earliest")


@app.on_start
def produce() -> None:
    for number in range(8):
        period, minutes = 20 + 5 * number, range(1440)
        noon = [20 + math.sin(math.pi * minute / 1440) for minute in minutes]  # warmer at noon
        day = [noon[minute] + 0.7 * math.sin(2 * math.pi * minute / period) for minute in minutes]
        app.producer.send("days", day, key=f"home-{number}", partition=number % 2)
    app.producer.send("days", "no day", key="home-x", partition=0)
    app.producer.flush()


@app.on_worker_start
def set_up() -> None:
    """Configure logging in each process, which starts without any."""
    form = f"%(message)s (process {os.getpid()})"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stdout)


@app.handler(
    "days",
    workers=ehkafka.Processes(2),
    deadline_s=30,  # a process that takes longer is ended and replaced: one failed attempt for this record
    retry=ehkafka.Retry(attempts=2),
    on_failure=ehkafka.Skip(),
)
def find_rhythm(record: ehkafka.Record) -> None:
    """Log after how many minutes a day's temperatures repeat themselves best."""
    temperatures: list[float] = record.json()
    mean = sum(temperatures) / len(temperatures)
    around = [temperature - mean for temperature in temperatures]

    def likeness(lag: int) -> float:
        pairs = zip(around, around[lag:], strict=False)
        return sum(now * later for now, later in pairs) / (len(around) - lag)

    log = logging.getLogger("heating")
    log.info("%s: the heating cycles every %d min", record.partition_key, max(LAGS, key=likeness))


if __name__ == "__main__":
    app.run(until="caught_up")
