"""Which requests the namespace offers, in which versions: its first answer, before any login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _live.offered import offered_versions
from _live.probe import Observed, Probe, noted, ok

if TYPE_CHECKING:
    from _live.site import Site

# Seen on a namespace by the one person who published it.
SEEN = {1: (4, 6), 3: (0, 5), 8: (0, 8), 22: (0, 1), 23: (0, 0)}
NAMES = {
    1: "Fetch",
    3: "Metadata",
    8: "OffsetCommit",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    28: "TxnOffsetCommit",
    42: "DeleteGroups",
    68: "ConsumerGroupHeartbeat",
}


def versions(site: Site) -> Observed:
    """Ask, and compare with what was seen before."""
    offered = offered_versions(site.endpoint)
    shown = {
        name: "{}–{}".format(*offered[key]) if key in offered else "not offered"
        for key, name in NAMES.items()
    }
    other = [NAMES[key] for key, seen in SEEN.items() if offered.get(key) != seen]
    facts = {"offered": {str(key): list(pair) for key, pair in sorted(offered.items())}}
    text = ", ".join(f"{name} {version}" for name, version in shown.items())
    if other:
        return noted(f"{text}. Not as that user saw them: {', '.join(other)}", **facts)
    return ok(text, **facts)


PROBES = (
    Probe(
        name="versions",
        documented="No page has them; seen by a user: Fetch 4–6, Metadata 0–5, OffsetCommit 0–8, "
        "InitProducerId 0–1, OffsetForLeaderEpoch 0",
        link="https://github.com/aio-libs/aiokafka/issues/945",
        function=versions,
        expected_s=2.0,
        needs=("login",),
    ),
)
