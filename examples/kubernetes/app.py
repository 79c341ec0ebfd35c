"""What the image runs; where its broker is says the environment.

EHKAFKA_BOOTSTRAP=localhost:9092 ehkafka run examples/kubernetes/app.py
"""

import logging

import ehkafka

app = ehkafka.App(group="readings", start="earliest")
log = logging.getLogger("readings")


@app.handler("readings", workers=16)
def readings(record: ehkafka.Record) -> None:
    log.info("%s %s %s", record.where, record.partition_key, record.json())
