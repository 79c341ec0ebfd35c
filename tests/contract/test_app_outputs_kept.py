"""An output that is refused with its record's dead letter: it waits for the next start, and its key alone."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import UnfinishedError
from ehkafka.testing import ApiKey

REFUSED = KafkaError.INVALID_RECORD
TO_DEAD = ehkafka.DeadLetter("dead")


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs and one for letters, which both refuse what comes first."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("dead", 1)
    lab.produce("a")
    # With its batch and alone; its letter likewise.
    lab.broker.fail_next(ApiKey.PRODUCE, *[REFUSED] * 4)
    return lab


def copies(lab: Any, *, to_key: bytes | None = None, **options: Any) -> tuple[Any, list[int]]:
    """Return an app that runs and copies records, and the offsets that it has handled."""
    handled: list[int] = []
    app = lab.app(None, **options)

    @app.handler("t", to="out", on_failure=TO_DEAD, workers=4)
    def handle(record: Any) -> Any:
        handled.append(record.offset())
        return ehkafka.Send(b"%d" % record.offset(), key=to_key or record.key())

    app.start()
    return app, handled


def test_only_its_key_waits_and_health_says_why(out: Any, wait_for: Any, stays: Any, read_topic: Any) -> None:
    """A restart handles its record again, and all that waited."""
    app, handled = copies(out, stop_s=20.0)
    wait_for(lambda: any("'out'" in one and "dead" in one for one in app.health().reasons))
    (reason,) = [one for one in app.health().reasons if "'out'" in one]
    assert "t[0]@0" in reason
    assert "INVALID_RECORD" in reason
    out.produce(" ".join(["a b"] * 20))
    wait_for(lambda: {offset for offset in handled if offset} == set(range(2, 41, 2)))
    wait_for(lambda: app.snapshot().unacknowledged_outputs == 1)
    stays(lambda: len(handled) == 21 and out.committed() in (None, 0))
    began_s = time.monotonic()
    with pytest.raises(UnfinishedError, match="1 output was not acknowledged"):
        app.stop()
    assert time.monotonic() - began_s < 10.0, "a stop waits for what a person decides"
    again, handled = copies(out)
    wait_for(lambda: out.committed() == 41)
    again.stop()
    assert set(handled) >= {0, *range(1, 40, 2)}
    found = [int(one.value()) for one in read_topic("out", 41) if one.key() == b"a"]
    assert found == [0, *range(1, 40, 2)]


def test_other_keys_that_send_to_its_key_wait_as_well(out: Any, wait_for: Any, stays: Any) -> None:
    """Else their outputs would take the room of all."""
    app, handled = copies(out, to_key=b"all")
    wait_for(lambda: any("'out'" in one for one in app.health().reasons))
    out.produce("b c")
    wait_for(lambda: app.snapshot().unacknowledged_outputs == 3)
    time.sleep(2.0)  # two slow checks
    out.produce("b c b c")
    stays(lambda: sorted(handled) == [0, 1, 2])
    with pytest.raises(UnfinishedError):
        app.stop()
