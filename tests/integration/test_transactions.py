"""Apps that send exactly once, on a broker: what readers see of what `tests/proof` does not have."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka import Retry
from ehkafka.errors import FencedError, HandlerFailedError
from tests.integration.sent import TIMEOUT_S, Sent, place_of, plain
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker


def test_what_a_batch_returns_as_a_whole_ends_the_app(sent: Sent) -> None:
    """With the way out in its error."""

    def whole(batch: Any) -> Any:
        return ehkafka.Send("all", key=b"k")

    sent.load.produce(5)
    app = sent.app(whole, batch_records_max=5)
    app.start()
    app.wait(TIMEOUT_S)
    with pytest.raises(HandlerFailedError, match=r"call record\.send\(…\) for each record"):
        app.stop()
    assert sent.outputs() == []


def test_a_deferred_record_sends_when_it_is_finished(sent: Sent) -> None:
    """And what one had sent that is failed by its token is not seen."""

    def deferring(record: Any) -> None:
        token = record.defer(deadline_s=30.0)
        if record.attempt == 1 and record.offset() % 3 == 0:
            record.send("void")
            token.fail(ValueError("no"))
        else:
            record.send(place_of(record))
            token.finish()

    sent.run(sent.app(deferring, workers=4, retry=Retry(attempts=3, first_s=0.01)), 100)
    assert "void" not in sent.outputs()
    sent.check()


def test_outputs_above_a_slow_record_are_seen_before_it_ends(sent: Sent) -> None:
    """They are saved in the same transaction, so a restart does not send them again."""
    sent.load.put_all(b"slow")
    (slow,) = sent.load.ends
    sent.load.put_all(*[b"key-%d" % number for number in range(50)])
    waits = True

    def handler(record: Any) -> str:
        while record.key() == b"slow" and waits:
            time.sleep(0.01)
        return place_of(record)

    app = sent.app(handler, workers=8)
    app.start()
    wait_until(lambda: len(sent.outputs()) == 50, timeout_s=TIMEOUT_S)
    assert sent.stage.committed()[slow] == 0
    waits = False
    sent.stage.wait_until_committed(sent.load.ends)
    app.stop()
    sent.check()


def test_a_shared_instance_id_ends_the_older_process(sent: Sent) -> None:
    """The newer one has its transactional id, and goes on."""
    sent.load.produce(20)
    older = sent.app(plain, instance_id="one")
    older.start()
    sent.stage.wait_until_committed(sent.load.ends)
    newer = sent.app(plain, instance_id="one")
    newer.start()
    sent.load.produce(20)
    wait_until(lambda: older.state == "stopped", timeout_s=TIMEOUT_S)
    with pytest.raises(FencedError):
        older.stop()
    sent.stage.wait_until_committed(sent.load.ends)
    newer.stop()
    sent.check()
