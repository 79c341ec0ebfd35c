"""What cannot be sent soundly is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.errors import ConfigurationError


def test_two_codecs_for_one_topic_end_the_start(lab: Any) -> None:
    """Readers of the topic could not decode both."""
    lab.broker.create_topic("out", 1)
    app = lab.app(None)

    @app.handler("t", to="out")
    def to_json(record: Any) -> dict[str, Any]:
        return {}

    @app.handler("u", to="out")
    def to_bytes(record: Any) -> bytes:
        return b""

    with pytest.raises(ConfigurationError, match=r"'to_json' sends .*'to_bytes' sends bytes"):
        app.start()


def test_outputs_on_spark_are_refused(lab: Any) -> None:
    """With the reason and the fix, before a session is needed; the same app without them gets further."""
    app = lab.app(None)
    app.handler("t", to="out")(lambda record: record.value())
    with pytest.raises(ConfigurationError, match=r"On Spark, handler .*to='out'.*without Spark"):
        app.run_on_spark(None)
    without = lab.app(lambda record: None)
    with pytest.raises(ConfigurationError, match="On Spark, history="):
        without.run_on_spark(None)
