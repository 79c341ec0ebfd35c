"""Real values for the fields of events, by their names."""

from __future__ import annotations

from typing import Any

from ehkafka.records import TopicPartition

ERROR = "TimeoutError: no answer within 5 s"
# By the name of a field.
NAMED: dict[str, Any] = {
    "action": "skip",
    "advice": "Set 30000 or more",
    "attempt": 2,
    "blob": "home/orders/billing/checkpoint/2",
    "broker": "localhost:9092/1",
    "by": "page at 127.0.0.1",
    "code": "_TRANSPORT",
    "count": 3,
    "decision": "the app stops",
    "deviation": "auto_commit",
    "drain": "started",
    "endpoint": "home.servicebus.windows.net",
    "epoch": 3,
    "error": ERROR,
    "exit_code": 4,
    "failures": 2,
    "group": "billing",
    "handler": "watch",
    "how": "signal SIGKILL",
    "is_loopback": False,
    "key": "home-7",
    "kind": "str",
    "largest_key": "home-7",
    "lines": "orders[2]: 12 records",
    "log_end": 4_800,
    "log_start": 1_500,
    "next_offset": 1_207,
    "next_offsets": ((TopicPartition("orders", 2), 1_207),),
    "number": 2,
    "offset": 1_207,
    "option": "on_out_of_range",
    "owner": "pod-1",
    "partition": TopicPartition("orders", 2),
    "partitions": (TopicPartition("orders", 2), TopicPartition("orders", 3)),
    "pid": 4_711,
    "place": "app.py:12 in watch",
    "position": "offset 1207",
    "proof": "the record at offset 1206 still has the timestamp 2023-11-14T22:13:20.000+00:00",
    "property": "session.timeout.ms",
    "reason": "revoked",
    "result": "home-7 is skipped",
    "running": ("watch on orders[2]@1207",),
    "severity": 3,
    "source": "EHKAFKA_CONNECTION_STRING",
    "stack": "",
    "stacks": "",
    "state": "running",
    "store": "https://me.blob.core.windows.net/checkpoints",
    "target": "key",
    "text": "GETPID: localhost:9092: broker is down",
    "to": "orders.dead",
    "topics": ("orders", "refunds"),
    "url": "http://127.0.0.1:8080",
    "value": "5000",
    "waiting": ("home-7", "home-9"),
    "what": "home-7",
    "where": "on_start",
    "why": "SIGUSR1",
    "worker": "ehkafka-watch-1",
}
# By the kind of event, where a name means something else than usual.
OF_KIND: dict[str, Any] = {
    "ActionRefused.text": "another process has the partition",
    "AppStopping.reason": "SIGTERM",
    "CommitPaceBounded.interval_s": 0.1,
    "CredentialUnusable.reason": "/mnt/hub cannot be read (Permission denied)",
    **{f"Producer{what}.of": "dead letters" for what in ("NotOpened", "Plain", "Replaced")},
    "ProducerPlain.reason": "it has no transactions",
    "DeferredAnswerDropped.reason": "the attempt's deadline had passed, so the attempt had failed",
    "DropInDeviated.text": "a record is committed once the next poll has begun",
    "GroupReset.once_as": "2026-11",
    "HandlerResized.workers_before": 2,
    "LogReplaced.action": "earliest",
    "LogReplaced.reason": "the topic had the id 3f6f5a1c-6d1e-4c0e-9f1b-1a2b3c4d5e6f, and now has another id",
    "MemberHung.reason": "its poll loop has stopped",
    "MembersReplacing.reason": "SIGHUP",
    "MirrorForeign.reason": "was written by another program",
    "OffsetGap.action": "earliest",
    "ProducerReplaced.reason": "UNKNOWN_PRODUCER_ID",
    "ParkedBudgetFull.action": "pause_partition",
    "ProgressTruncated.dropped_offsets": 40,
    "PartitionsWaiting.reason": "no answer within 5 s",
    "ProgressIgnored.reason": "another program has made the commit",
    "ProgressIgnored.source": "the mirror",
    "ProgressRestored.source": "the commit",
    "RecordSkipped.reason": "SkipRecord: a test reading",
    "RetentionNear.log_start": 1_100,
    "SettingAdvice.source": "Event Hubs docs, client configurations",
    "TransactionAborted.reason": "INVALID_TXN_STATE",
    "TransactionProducerReplaced.reason": "INVALID_PRODUCER_EPOCH",
}
# By the end of a name, which has its unit.
ENDINGS: dict[str, Any] = {
    "_s": 5.1,
    "_ms": 1_700_000_000_000,
    "_bytes": 1_048_576,
    "_records": 900,
    "_offset": 1_207,
    "_offsets": 12,
    "_max": 1_000,
}


def value_of(event: str, name: str, kind: str) -> Any:
    """Return a value for a field of an event; a name without one gets one by its type."""
    if f"{event}.{name}" in OF_KIND:
        return OF_KIND[f"{event}.{name}"]
    if name == "partitions" and kind == "int":
        return 8
    if name in NAMED and not kind.startswith("bool"):
        return NAMED[name]
    found = next((value for ending, value in ENDINGS.items() if name.endswith(ending)), None)
    if found is not None:
        return found
    return {"int": 3, "float": 5.1, "str": name, "bool": True}.get(kind.removesuffix(" | None"))
