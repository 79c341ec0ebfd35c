"""Store readings in SQLite, many at once: `ehkafka run examples/batches/app.py`.

One transaction a batch; the commit comes after it. A reading that is no reading fails alone and goes to
`readings.dead`; one that is stored already, after a restart, is left as it is.
"""

import os
import sqlite3
from contextlib import closing

import ehkafka

DATABASE = os.environ.get("READINGS_DB", "readings.db")
broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="store", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")

TABLE = """create table if not exists readings
    (partition integer, offset integer, home text, temperature real, primary key (partition, offset))"""


@app.on_start
def prepare() -> None:
    """Make the table before the first batch."""
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute(TABLE)


@app.batch_handler(
    "readings",
    batch_records_max=500,
    wait_s_max=1.0,
    workers=1,
    on_failure=ehkafka.DeadLetter("readings.dead"),
)
def store(batch: ehkafka.Batch) -> None:
    """Store what can be read; a database that is away raises, and the batch comes again."""
    rows = []
    for record in batch:
        try:
            reading = record.json()
            rows.append((record.partition(), record.offset(), reading["home"], reading["temperature"]))
        except (ValueError, KeyError, TypeError) as error:
            batch.fail(record, error)
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.executemany("insert or ignore into readings values (?, ?, ?, ?)", rows)
