from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.properties.layers import producer_properties
from ehkafka.events import ConnectionProblem, TokenRefreshed, TokenRefreshFailed
from tests.kit.brokers import REAUTHENTICATE_S, server_identity
from tests.kit.events import Events
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

# As short as librdkafka's timer of one second lets them be: it asks at 80 %, and up to a second later.
LIFE_S = 8.0
RECOVERY_S_MAX = 10.0
# So that no outage of these tests costs a membership, and each record is handled once.
STEADY = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 1_000}


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityEndpoint]:
    """Run a managed-identity endpoint where azure-identity looks for one."""
    with IdentityEndpoint(LIFE_S) as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def entra(
    kafka: KafkaBroker, identity: IdentityEndpoint, tmp_path: Path
) -> Iterator[Callable[..., ehkafka.Endpoint]]:
    """Return what makes an endpoint of a managed identity, moved to the test's broker; closes them."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes(server_identity().ca_pem)
    moved = {"bootstrap.servers": kafka.bootstrap_for("entra"), "ssl.ca.location": str(authority)}
    made: list[ehkafka.Endpoint] = []

    def make(client_id: str | None = None) -> ehkafka.Endpoint:
        made.append(ehkafka.Endpoint.entra("home", "managed_identity", client_id=client_id, properties=moved))
        return made[-1]

    yield make
    for endpoint in made:
        endpoint.close()


def test_tokens_are_refreshed_while_idle_and_while_busy(
    kafka: KafkaBroker,
    identity: IdentityEndpoint,
    entra: Callable[..., ehkafka.Endpoint],
    stage_on: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Over several tokens and re-authentications nothing is lost, repeated or said, idle or busy."""
    busy, idle = stage_on(kafka, 4), stage_on(kafka, 1)
    endpoint = entra()
    noted, statistics = Events(), Statistics()
    watched = {**STEADY, "statistics.interval.ms": 500, "stats_cb": statistics}
    apps = [busy.app(endpoint=endpoint, consumer=watched), idle.app(endpoint=endpoint, consumer=STEADY)]
    for app in apps:
        app.add_hook(noted)
    start_together(apps)
    # Closed whatever happens: it would ask the next test's identity endpoint.
    with open_producer({**producer_properties(endpoint, {}), "log_level": 0}) as producer:
        load = busy.load(300.0)
        load.start()
        tokens_before = len(identity.issued)
        wait_until(lambda: len(identity.issued) - tokens_before >= 2, "two refreshes", 3 * LIFE_S)
        time.sleep(REAUTHENTICATE_S)
        load.stop()
        producer.produce(idle.topic, b"after the tokens of the start")
        assert producer.flush(10.0) == 0
    busy.wait_until_committed(load.ends)
    idle.wait_until_committed({0: 1})
    for stage in (busy, idle):
        stage.stop_apps()
        stage.judged(repeats=False)
    # A token each time it is due, for both apps and the producer together.
    assert endpoint.tokens.attempts == len(identity.requests) <= 6
    assert len({event.life_s for event in noted.of(TokenRefreshed)}) >= 2
    assert noted.of(TokenRefreshFailed) == []
    assert [event for event in noted.of(ConnectionProblem) if "AUTHENTICATION" in event.code] == []
    assert statistics.authentications() >= 6
    for token in identity.issued:
        assert token not in caplog.text + repr(noted) + repr(apps[0].snapshot())


def test_consumption_goes_on_soon_after_the_token_endpoint_heals(
    kafka: KafkaBroker,
    identity: IdentityEndpoint,
    entra: Callable[..., ehkafka.Endpoint],
    stage_on: Callable[..., Any],
) -> None:
    """Row 13: 5xx, dead connections, expired tokens and time-outs outlive the token; back in 10 s."""
    faults: dict[str, Callable[..., None]] = {
        "5xx": identity.fail,
        "dead": identity.hang,
        "expired": lambda **whose: identity.issue(-60.0, **whose),
        "slow": lambda **whose: identity.issue(LIFE_S, after_s=60.0, **whose),
    }
    stages = {name: stage_on(kafka, 2) for name in faults}
    noted = {name: Events() for name in faults}
    apps = {name: stage.app(endpoint=entra(name), consumer=STEADY) for name, stage in stages.items()}
    loads = {name: stage.load(50.0) for name, stage in stages.items()}
    for name, app in apps.items():
        app.add_hook(noted[name])
    start_together(list(apps.values()))
    for load in loads.values():
        load.start()
    for name, begin in faults.items():
        begin(client_id=name)
    requests_before = Counter(request.client_id for request in identity.requests)
    began_s = time.monotonic()
    # The tokens of the start are used up, the broker refuses, and nothing comes.
    wait_until(lambda: all(map(is_refused, noted.values())), lambda: refusals(noted), 3 * LIFE_S)
    time.sleep(0.5)
    finished = {name: app.snapshot().finished_records for name, app in apps.items()}
    time.sleep(1.0)
    lasted_s = time.monotonic() - began_s
    assert {name: app.snapshot().finished_records for name, app in apps.items()} == finished
    requests = Counter(request.client_id for request in identity.requests) - requests_before

    identity.issue(LIFE_S)
    healed_s = time.monotonic()
    wait_until(
        lambda: all(app.snapshot().finished_records > finished[name] for name, app in apps.items()),
        lambda: f"{finished} before, now {[app.snapshot().finished_records for app in apps.values()]}",
        RECOVERY_S_MAX,
    )
    print(f"back after {time.monotonic() - healed_s:.1f} s; requests in {lasted_s:.0f} s: {requests}")  # noqa: T201
    for name, stage in stages.items():
        loads[name].stop()
        stage.wait_until_committed(loads[name].ends)
        stage.stop_apps()
        stage.judged(repeats=False)
        assert noted[name].of(TokenRefreshFailed), name
        # Neither a busy loop at the token endpoint nor a storm of errors from the broker.
        assert requests[name] <= 2 * lasted_s, name
        assert len(noted[name].of(ConnectionProblem)) < 10 * lasted_s, name


def test_a_stop_waits_for_no_token(
    kafka: KafkaBroker,
    identity: IdentityEndpoint,
    entra: Callable[..., ehkafka.Endpoint],
    stage_on: Callable[..., Any],
) -> None:
    """While the token endpoint hangs and librdkafka waits for an answer, a stop is as quick as ever."""
    stage = stage_on(kafka, 1)
    identity.issue(3.0)
    endpoint = entra()
    app = stage.app(endpoint=endpoint, consumer=STEADY)
    app.start()
    identity.hang()
    attempts = endpoint.tokens.attempts
    wait_until(lambda: endpoint.tokens.attempts > attempts, "a refresh began", 10.0)
    began_s = unstolen_s()
    app.stop(timeout_s=5.0)
    assert unstolen_s() - began_s < 4.0


class Statistics:
    """librdkafka's statistics; the last word of each client counts."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {"brokers": {}}

    def __call__(self, text: str) -> None:
        """Take one."""
        self._last = json.loads(text)

    def authentications(self) -> int:
        """Return how often the client has authenticated, over all connections."""
        return sum(broker["req"].get("SaslAuthenticate", 0) for broker in self._last["brokers"].values())


def start_together(apps: list[ehkafka.App]) -> None:
    """Start apps side by side: each client waits a second for its token inside confluent-kafka."""
    threads = [threading.Thread(target=app.start) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [app.state for app in apps] == ["running"] * len(apps)


def is_refused(noted: Events) -> bool:
    """Say whether the broker refused the app's token."""
    return any("invalid_token" in event.error for event in noted.of(ConnectionProblem))


def refusals(noted: dict[str, Events]) -> str:
    """Say who was refused."""
    return f"refused: { {name: is_refused(each) for name, each in noted.items()} }"
