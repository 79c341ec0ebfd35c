"""Calls that send nothing: each marked line is an error."""

from __future__ import annotations

import ehkafka

app = ehkafka.App(group="alarms", start="earliest")
app.handler("readings", to=3)  # error
app.handler("readings", to="alarms", acknowledged="never")  # error
app.handler("readings", tto="alarms")  # error
app.batch_handler("readings", to=[3])  # error
ehkafka.Send()  # error
ehkafka.Send(b"", keys=b"")  # error
ehkafka.Send(b"", topic=["alarms"])  # error
ehkafka.Send(b"", partition="0")  # error


@app.handler("readings", to="alarms")  # error
def nothing() -> ehkafka.Send:
    return ehkafka.Send(b"")


@app.handler("readings", to="alarms")
def warn(record: ehkafka.Record) -> None:
    record.send()  # error
    record.send(b"", partitions=1)  # error
    record.sent(b"")  # error
    record.send(b"", topic=3)  # error
