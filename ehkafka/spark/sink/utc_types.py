"""Times with a zone as UTC: what a session shows them in is not for a file that others read. Pure."""

from __future__ import annotations

import pyarrow as pa


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with every zoned time in UTC, at any depth; the moments stay the same."""
    schema = pa.schema([field.with_type(_utc(field.type)) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC") if kind.tz is not None else kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    return kind


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_utc(field.type))
