"""The new consumer: goes on where the old one's checkpoints stood, once they are imported.

EHKAFKA_CONNECTION_STRING='Endpoint=sb://…' ehkafka run examples/migration/app.py
"""

from __future__ import annotations

import logging

import ehkafka

# start= counts only for a partition without a commit: after the import, one that had no checkpoint.
app = ehkafka.App(group="alarms", start="earliest")


@app.handler("alarms")
def handle(record: ehkafka.Record) -> None:
    logging.getLogger("alarms").info("%s %s", record.where, (record.value() or b"").decode())
