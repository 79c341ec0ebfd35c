"""An output that is refused in the middle of others."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ehkafka import DeadLetter
from tests.contract.outputs_order import problems
from tests.integration.sent import inputs_of
from tests.kit.topic_read import read_messages


@pytest.mark.broker
def test_one_output_that_is_too_large_takes_no_other_with_it(stage: Any) -> None:
    """The broker refuses the whole batch; those that were with it arrive, and none of them is a letter."""
    out, dead = f"{stage.topic}-out", f"{stage.topic}-dead"
    stage.broker.create_topic(out, 1, {"max.message.bytes": "200000"})
    stage.broker.create_topic(dead, 1)
    load = stage.load()
    load.produce(400)
    # In batches with others, and so are those that are sent again.
    large = (0, load.ends[0] // 2)

    def handle(record: Any) -> bytes:
        place = record.partition(), record.offset()
        return b"%d:%d" % place + (os.urandom(300_000) if place == large else b"")

    app = stage.app(handle, to=out, on_failure=DeadLetter(dead))
    app.start()
    stage.wait_until_committed(load.ends)
    app.stop()
    inputs = inputs_of(stage)
    key = next(key for key, values in inputs.items() if b"%d:%d" % large in values)
    inputs[key].remove(b"%d:%d" % large)
    outputs = [(message.key(), message.value()) for message in read_messages(stage.broker.bootstrap, out)]
    assert problems(inputs, outputs) == []
    (letter,) = read_messages(stage.broker.bootstrap, dead)
    assert dict(letter.headers())["ehkafka-origin-offset"] == b"%d" % large[1]
