"""What a batch's manifest and a path's marker say, as JSON. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.spark.sink.message import Staged

VERSION = 1


def manifest(batch: int, query: str, staged: Sequence[Staged]) -> bytes:
    """Return the manifest of a complete batch: its blobs in the order of their partitions."""
    blobs = [{"name": each.blob, "rows": each.rows, "bytes": each.size_bytes} for each in staged]
    rows = sum(each.rows for each in staged)
    return _json({"version": VERSION, "batch": batch, "query": query, "rows": rows, "blobs": blobs})


def marker(query: str) -> bytes:
    """Return what says that a path belongs to a query."""
    return _json({"version": VERSION, "query": query})


def query_of(body: bytes) -> str | None:
    """Return the query that a marker or manifest names; None when it is none of ours."""
    try:
        found = json.loads(body)["query"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
