"""A range of a topic as Arrow batches, for Polars, DuckDB, pandas and Parquet. Needs the extra `[arrow]`.

`reading` has `read`, which plans (`planning`, with `places` for what a user writes as start and end) and
returns a `Reader` (`reader`); that reads by the room `ranges`, as Spark's source does. Its `Ends` (`ends`)
are how far it got, for a file and for the next call. `options` holds the arguments and the words of messages,
`header_texts` decodes headers. Joins no group and commits nothing: work that must be resumed record by record
belongs in an `App`. One thread at a time. `docs/guides/tables.md` has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.arrow.ends import Ends
from ehkafka.arrow.reading import read

if TYPE_CHECKING:
    from ehkafka.arrow.reader import Reader

__all__ = ["Ends", "Reader", "read"]


def __getattr__(name: str) -> Any:
    """Load the class with its extra when a program asks for it."""
    if name == "Reader":
        from ehkafka.arrow.reader import Reader  # noqa: PLC0415

        return Reader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
