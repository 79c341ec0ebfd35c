"""One readable sentence for each kind of event, in the groups of the catalogue `events`.

Pure: an event in, a line out, without a record's value or headers. Called by `LogLines` on the telemetry
thread. Importing a group registers its sentences (`dispatch`), so that whoever has `sentence` has all of
them: `app`, `commit`, `connection`, `consumer`, `credential`, `dead_letter`, `handler`, `mirror`,
`partition`, `record`.
"""

from __future__ import annotations

from ehkafka.telemetry.sentences import (
    app,
    commit,
    connection,
    consumer,
    credential,
    dead_letter,
    handler,
    mirror,
    partition,
    record,
)
from ehkafka.telemetry.sentences.dispatch import sentence

__all__ = [
    "app",
    "commit",
    "connection",
    "consumer",
    "credential",
    "dead_letter",
    "handler",
    "mirror",
    "partition",
    "record",
    "sentence",
]
