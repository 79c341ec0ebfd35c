"""Goes through the probes: one at a time, each on a thread of its own, never longer than its limit.

On the main thread. No error of a probe gets out; Ctrl-C ends the run after the results so far.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from _live.probe import NotTried, Observed, Result, Status
from ehkafka.checks.inspection import Overdue, bounded
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _live.probe import Probe
    from _live.progress import Progress
    from _live.site import Site

TOTAL_S = 30 * 60.0
# Kept back for removing what was created, and for the report.
CLEANING_S = 90.0


class Run:
    """One run; `results` has one for each probe in the end."""

    def __init__(self, site: Site, probes: Sequence[Probe], progress: Progress) -> None:
        self._site = site
        self._probes = probes
        self._progress = progress
        self._over_s = time.monotonic() + TOTAL_S - CLEANING_S
        self.results: list[Result] = []
        self.was_interrupted = False

    def go(self) -> None:
        """Try each probe."""
        for number, probe in enumerate(self._probes):
            self._progress.begin(number, probe)
            try:
                result = self._result(probe)
            except KeyboardInterrupt:
                self.was_interrupted = True
                break
            self._take(result)
        for probe in self._probes[len(self.results) :]:
            self._take(self._made(probe, Observed(Status.UNTRIED, "the run was interrupted")))

    def _take(self, result: Result) -> None:
        self.results.append(result)
        self._progress.end(result)

    def _result(self, probe: Probe) -> Result:
        if obstacle := self._obstacle(probe):
            return self._made(probe, Observed(Status.UNTRIED, obstacle))
        began_s = time.monotonic()
        limit_s = min(probe.limit_s, self._over_s - began_s)
        try:
            observed = bounded(lambda: probe.function(self._site), limit_s, f"live-{probe.name}")
        except NotTried as reason:
            observed = Observed(Status.UNTRIED, str(reason))
        except Overdue:
            observed = Observed(Status.UNTRIED, f"it did not end within {limit_s:.0f} s")
        except KafkaException as error:
            observed = Observed(Status.UNTRIED, describe_error(error.args[0]))
        except Exception as error:
            observed = Observed(Status.UNTRIED, f"it ended with an error: {describe(error)}")
        return self._made(probe, observed, time.monotonic() - began_s)

    def _obstacle(self, probe: Probe) -> str:
        seen = {result.name: result.status for result in self.results}
        for need in probe.needs:
            if seen.get(need) in (Status.UNTRIED, Status.DIFFERS):
                return f"it needs the probe {need}, which was not ok"
        if probe.permission == "--throttle" and not self._site.given.may_flood:
            return "it was not permitted: --throttle"
        if time.monotonic() >= self._over_s:
            return "the half hour was over"
        return ""

    def _made(self, probe: Probe, observed: Observed, took_s: float = 0.0) -> Result:
        clean = self._site.cleaner
        return Result(
            name=probe.name,
            documented=probe.documented,
            link=probe.link,
            status=observed.status,
            seen=clean.text(observed.text),
            seconds=took_s,
            facts=clean.facts(observed.facts),
        )
