"""Commits: how many a second are accepted, and how much metadata each may have."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from _live.committing import Committer
from _live.probe import QUOTAS, Observed, Probe, differs, ok
from ehkafka.progress.saving import EVENT_HUBS_METADATA_BYTES_MAX, KAFKA_METADATA_BYTES_MAX

if TYPE_CHECKING:
    from _live.committing import Answer
    from _live.site import Site

DOCUMENTED_PER_S = 4
PACED = 3
# With so many in flight the answers come at this rate where nothing throttles them.
UNTHROTTLED_PER_S = 20
# So much slower than a paced one is a commit that was throttled.
SLOWER_S = 0.25
# What the engine uses: a broker may refuse a text of the very length that is its limit.
TEXT_MAX = EVENT_HUBS_METADATA_BYTES_MAX
# The limit, one more, and what Apache Kafka accepts.
LONGER = (TEXT_MAX + 1, TEXT_MAX + 2, KAFKA_METADATA_BYTES_MAX)


def pacing(site: Site) -> Observed:
    """Commit slowly, then as quickly as it goes, always on one partition."""
    committer = Committer(site, site.group("pacing"), site.topic)
    committer.commit(0)  # finds the coordinator
    paced = []
    for _ in range(PACED):
        site.pause(site.waits.between_commits_s)
        paced.append(committer.commit(0))
    usual_s = min(answer.took_s for answer in paced)
    in_flight_max = 1 + int(usual_s * UNTHROTTLED_PER_S)
    flood, took_s = _flood(site, committer, in_flight_max)
    committer.close()
    slow = [answer for answer in flood if answer.error is None and answer.took_s > 2 * usual_s + SLOWER_S]
    errors = Counter(answer.name for answer in flood if answer.error is not None)
    rate = (len(flood) - len(slow) - errors.total()) / took_s
    facts = {
        "usual_ms": round(usual_s * 1000, 1),
        "in_flight": in_flight_max,
        "answered_per_s": round(len(flood) / took_s, 2),
        "quick_per_s": round(rate, 2),
        "slow": len(slow),
        "slowest_s": round(max((answer.took_s for answer in flood), default=0.0), 2),
        "errors": dict(errors),
        "throttle_times_s": sorted({round(one, 2) for one in committer.throttled_s})[:20],
    }
    if slow or errors or committer.throttled_s:
        shown = (
            f", errors: {', '.join(f'{name} × {count}' for name, count in errors.items())}" if errors else ""
        )
        return ok(
            f"throttled: of commits sent without a pause {facts['answered_per_s']} a second are answered, "
            f"{facts['quick_per_s']} of them quickly, the slowest after {facts['slowest_s']} s{shown}; with "
            f"pauses a commit takes {facts['usual_ms']} ms",
            **facts,
        )
    return differs(f"no throttling: {facts['answered_per_s']} commits a second, all quick", **facts)


def _flood(site: Site, committer: Committer, in_flight_max: int) -> tuple[list[Answer], float]:
    first, began_s = len(committer.answers), time.monotonic()
    offset = 0
    while time.monotonic() - began_s < site.waits.commits_s and not site.is_over.is_set():
        if committer.in_flight < in_flight_max:
            offset += 1
            committer.send(offset)
        else:
            committer.poll()
    took_s = time.monotonic() - began_s
    answered = committer.answers[first:]
    # Those without an answer so far are the slowest.
    site.wait(committer.is_answered, 20.0)
    late = committer.answers[first + len(answered) :]
    return [*answered, *late], max(took_s, 0.001)


def metadata(site: Site) -> Observed:
    """Commit as much as is documented, a byte more, and what Apache Kafka takes."""
    committer = Committer(site, site.group("metadata"), site.topic)
    is_accepted = {}

    def accepts(size: int) -> bool:
        site.pause(site.waits.between_commits_s)
        answer = committer.commit(1, "x" * size)
        is_accepted[size] = answer.name or "accepted"
        return answer.error is None

    if accepts(TEXT_MAX):
        kept = committer.committed().metadata
        largest = TEXT_MAX
        is_intact = kept == "x" * TEXT_MAX
    else:
        largest = _largest(accepts)
        kept = committer.committed().metadata
        is_intact = bool(kept)
    beyond = [size for size in LONGER if accepts(size)]
    committer.close()
    facts = {"sizes": {str(size): answer for size, answer in is_accepted.items()}, "intact": is_intact}
    if largest < TEXT_MAX:
        return differs(f"only {largest} bytes are accepted: commits carry fewer finished ranges", **facts)
    if not is_intact:
        return differs(f"{TEXT_MAX} bytes are accepted, but are not returned as they were", **facts)
    shown = ", ".join(f"{size}: {is_accepted[size]}" for size in LONGER)
    text = f"{TEXT_MAX} bytes are returned intact; longer ones, {shown}"
    return differs(text, **facts) if set(beyond) - {LONGER[0]} else ok(text, **facts)


def _largest(accepts: object) -> int:
    """Return the largest size that is accepted, within 16 bytes."""
    assert callable(accepts)
    low, high = 0, TEXT_MAX
    while high - low > 16:
        middle = (low + high) // 2
        if accepts(middle):
            low = middle
        else:
            high = middle
    return low


PROBES = (
    Probe(
        name="commits",
        documented="4 commits a second per partition; users saw about 2 that were quick, others took 1.1 s",
        link=QUOTAS,
        function=pacing,
        expected_s=18.0,
        creates="a group",
    ),
    Probe(
        name="metadata",
        documented="1024 bytes of metadata in a commit; the engine uses 1023, for 1024 may be refused",
        link=QUOTAS,
        function=metadata,
        expected_s=10.0,
        creates="a group",
    ),
)
