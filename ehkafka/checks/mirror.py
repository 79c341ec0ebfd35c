"""Step `mirror`: whether the mirror's store answers and takes writes, and what it will cost in writes.

Writes one small blob of its own, always under the same name, so that no checkpoint moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.checkpoints.store_mirror import writes_per_month
from ehkafka.checkpoints.stores.store import StoreConflictError, StoreError
from ehkafka.checks.result import SETTINGS_CODE, Finding, NotMeasured, Problem
from ehkafka.errors import ConfigurationError
from ehkafka.wording import counted, seconds

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection

OWN_BLOB = "ehkafka/check"
ADVICE = (
    "Give each group a container of its own, in the app's region, in an account without hierarchical "
    "namespace, and without soft delete and versioning of blobs: each would keep every old checkpoint."
)


def mirror(inspection: Inspection, _subject: str | None) -> Finding:
    """Read and write once."""
    choice = inspection.target.mirror
    if choice is None:
        raise NotMeasured("the app has no mirror")
    try:
        store = choice.open_store()
    except ConfigurationError as error:
        raise Problem(str(error), "Correct it.", exit_code=SETTINGS_CODE) from error
    try:
        there = store.read(OWN_BLOB)
        version = there.version if there is not None else None
        store.write(OWN_BLOB, metadata={"by": "ehkafka check"}, body=b"", expected=version)
    except StoreConflictError:
        # Another check was quicker, so the store takes writes.
        pass
    except StoreError as error:
        text, _, fix = str(error).partition(". ")
        raise Problem(text, fix or "Fix the cause that the store reports.") from error
    finally:
        store.close()
    partitions = _partitions(inspection)
    writes = writes_per_month(partitions, choice.interval_s)
    return Finding(
        f"{store.name} takes writes; at most {writes:,} writes a month for "
        f"{counted(partitions, 'partition')}, if each has a new commit every "
        f"{seconds(choice.interval_s)}. {ADVICE}",
        {"store": store.name, "writes_per_month_max": writes, "interval_s": choice.interval_s},
    )


def _partitions(inspection: Inspection) -> int:
    """Return how many partitions the target's topics have, 1 as long as that is not known."""
    cluster = inspection.cluster
    known = cluster.topics if cluster is not None else {}
    return sum(len(known[topic].partitions) for topic in inspection.target.topics if topic in known) or 1
