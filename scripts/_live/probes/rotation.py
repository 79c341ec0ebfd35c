"""A rotated key, without regenerating one: the app changes over to the policy's second key while it runs.

Kafka cannot regenerate a key, and a script should not. Each policy has two keys that are both valid; changing
from one to the other is the first half of each rotation.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from _live.probe import DOCS, NotTried, Observed, Probe, differs, ok
from ehkafka.checks.result import Status as Checked
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target
from ehkafka.events import ConnectionProblem, CredentialRotated

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site
    from ehkafka.events import Event

# A callable is asked every 5 s.
TAKEN_UP_S = 20.0
HANDLED_S = 30.0


class _Changes:
    """The events of the app that matter here."""

    def __init__(self) -> None:
        self.rotated = threading.Event()
        self.refusals: list[str] = []

    def on_event(self, event: Event) -> None:
        """Note one; on the telemetry thread."""
        if isinstance(event, CredentialRotated):
            self.rotated.set()
        elif isinstance(event, ConnectionProblem) and "AUTHENTICATION" in event.code:
            self.refusals.append(event.error)


def rotation(site: Site) -> Observed:
    """Change the key under a running app, then enter with the new one."""
    first, second = site.given.string, site.given.second
    if first is None or second is None:
        raise NotTried(
            "no second connection string was given: EHKAFKA_LIVE_SECOND_CONNECTION_STRING, the same policy's "
            "with its other key. No key is ever regenerated"
        )
    current = [first]

    def fetch() -> str:
        return current[0].reveal()

    endpoint = site.given.key_endpoint(fetch)
    assert endpoint is not None
    site.closed_at_the_end(endpoint.close)
    changes, handled = _Changes(), threading.Semaphore(0)
    mark = site.ledger.run.encode() + b" rotation"
    app = site.app(site.group("rotation"), endpoint=endpoint)
    app.add_hook(changes)

    @app.handler(site.topic, workers=2)
    def handle(record: ehkafka.Record) -> None:
        if record.value() == mark:
            handled.release()

    def one_is_handled() -> bool:
        site.produce(site.topic, [(b"key", mark)])
        return site.wait(lambda: handled.acquire(blocking=False), HANDLED_S)

    with site.running(app):
        if not one_is_handled():
            raise NotTried("no record was handled with the first key")
        current[0] = second
        if not site.wait(changes.rotated.is_set, TAKEN_UP_S):
            return differs(f"the second key was not taken up within {TAKEN_UP_S:.0f} s")
        if not one_is_handled():
            return differs("no record was handled after the change", refusals=changes.refusals[:3])
    return _entered(site, changes)


def _entered(site: Site, changes: _Changes) -> Observed:
    """Open a new connection with the second key."""
    second = site.given.second
    assert second is not None
    endpoint = site.given.key_endpoint(second.reveal())
    assert endpoint is not None
    site.closed_at_the_end(endpoint.close)
    report = run_checks(Target(endpoint=endpoint))
    failed = next((one for one in report.results if one.status is Checked.FAILED), None)
    if failed is not None:
        return differs(f"the second key is refused at a new connection: {failed.text}")
    text = "the app changed over without a stop, and a new connection is accepted"
    return ok(f"{text}; refusals meanwhile: {len(changes.refusals)}", refusals=changes.refusals[:3])


PROBES = (
    Probe(
        name="rotation",
        documented="Both keys of a policy are valid; regenerating one does not cut open connections",
        link=f"{DOCS}/azure-event-hubs-apache-kafka-overview",
        function=rotation,
        expected_s=25.0,
        limit_s=120.0,
        records=2,
        kilobytes=1,
        creates="a group",
    ),
)
