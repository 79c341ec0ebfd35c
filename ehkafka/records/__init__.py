"""Records: what a handler sees, and what it may raise about it.

`message` has the values that every room shares, `record` the `Record`, `batch` a handler's batch, `deferral`
the token of a deferred record, `signals` what a handler raises instead of failing. `payload_types` tells
which annotations mean a payload, `client_codes` names librdkafka's own errors.
"""

from __future__ import annotations

from ehkafka.records.message import Headers, Message, Outcome, TopicPartition
from ehkafka.records.record import Record, moment_of, own_copy, record_type, sending_type

__all__ = [
    "Headers",
    "Message",
    "Outcome",
    "Record",
    "TopicPartition",
    "moment_of",
    "own_copy",
    "record_type",
    "sending_type",
]
