"""Hostile blobs: our own checkpoints, those of other clients, owners' metadata, damaged and made up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
from ehkafka.checkpoints.formats.formats import FoundBlob, found_in
from ehkafka.checkpoints.mirror.body import (
    MILLISECONDS_MAX,
    OFFSET_MAX,
    checkpoint_body,
    checkpoint_metadata,
    ownership_metadata,
    read_checkpoint,
    read_ownership,
)
from ehkafka.checkpoints.stores.store import StoredBlob
from ehkafka.progress.metadata import LogFacts
from tests.kit.fuzz.target import Target, any_text, any_value, damaged

if TYPE_CHECKING:
    import random

_SDK = "home.servicebus.windows.net/readings/$default/checkpoint/3"
_PLACES = (_SDK, _SDK.replace("checkpoint", "ownership"), "$Default/3", "3", "dapr-readings-$default-3", "x")
_BODIES: tuple[dict[str, Any], ...] = (
    {"PartitionId": "3", "Owner": "host", "Token": "t", "Epoch": 7, "Offset": "8", "SequenceNumber": 41},
    {"partition_id": "3", "owner": "host", "token": "t", "epoch": 7, "offset": "8", "sequence_number": 41},
    {"partitionID": "3", "epoch": 7, "owner": "h", "checkpoint": {"offset": "8", "sequenceNumber": 41}},
)


def _blob(rng: random.Random) -> StoredBlob:
    edges = sorted(rng.sample(range(101, 5_000), 2 * rng.randrange(20)))
    ours = Checkpoint(
        next_offset=100,
        finished=tuple(zip(edges[::2], edges[1::2], strict=True)),
        facts=LogFacts(witness=(99, 5), topic_id=bytes(16)),
        owner="host:1",
    )
    own = json.loads(checkpoint_body(ours))
    fields = dict(rng.choice((own, own, own, *_BODIES)))
    for name in rng.sample(list(fields), rng.randrange(3)):
        fields[name] = any_value(rng)
    try:
        body = json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate: another writer escapes it
        body = json.dumps(fields).encode()
    if rng.random() < 0.4:
        body = damaged(rng, body, b'[]{}",:9-e')
    metadata = checkpoint_metadata(ours) | ownership_metadata(Ownership(owner="h", epoch=1, at_ms=2))
    for name in rng.sample(list(metadata), rng.randrange(4)):
        metadata[name] = rng.choice((any_text(rng), str(any_value(rng))))
    return StoredBlob(rng.choice(_PLACES) if rng.random() < 0.9 else any_text(rng), "1", metadata, body)


def _judge(blob: StoredBlob) -> bool:
    checkpoint = read_checkpoint(blob.body)
    if checkpoint is not None:
        below = checkpoint.next_offset
        assert 0 <= below <= OFFSET_MAX
        for begin, end in checkpoint.finished:
            assert below <= begin < end <= OFFSET_MAX
            below = end
        assert 0 <= checkpoint.written_at_ms <= MILLISECONDS_MAX
        assert read_checkpoint(checkpoint_body(checkpoint)) == checkpoint, "does not come back"
    owned = read_ownership(blob.metadata)
    assert owned is None or (owned.owner.isprintable() and 0 <= owned.at_ms <= MILLISECONDS_MAX)
    found = found_in(blob)
    if isinstance(found, FoundBlob):
        assert found.partition >= 0
        assert found.next_offset is None or 0 <= found.next_offset <= OFFSET_MAX
    return checkpoint is not None or isinstance(found, FoundBlob)


TARGET: Final = Target("checkpoint blobs and owners' metadata", _blob, _judge, 4_000)
