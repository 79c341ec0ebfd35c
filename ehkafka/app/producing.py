"""`app.producer`: the part of `App` that sends what belongs to no record. Any thread."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from ehkafka.members.supervisor import Supervisor
    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.outputs.producer import AppProducer
    from ehkafka.run.runtime import Runtime

# What the last messages get at the end, even where the stop's time is over.
LAST_MESSAGES_S = 0.5
_INSTEAD = (
    "return what is to be sent from the handler (to=…), or open a confluent_kafka.Producer of your own in "
    "on_worker_start."
)


class Producing:
    """The app's producer, and its end."""

    _runtime: Runtime | None
    _supervisor: Supervisor | None
    _producer: AppProducer | None = None

    @property
    def producer(self) -> AppProducer:
        """Sends what belongs to no record: `app.producer.send("topic", value)`, from `on_start` to `on_stop`.

        It may be asked for at any time; the client is opened at the first message. What a handler makes of
        its record is better an output, by `to=`: no commit passes the record before it is written.
        """
        if self._producer is None:
            from ehkafka.outputs.producer import AppProducer  # noqa: PLC0415 - few apps send any

            self._producer = AppProducer(self._messages)
        return self._producer

    @property
    def state(self) -> str:
        """Where the app is in its life."""
        raise NotImplementedError

    def _messages(self) -> OwnProducer:
        """Return what sends in this run. Raises `ConfigurationError` where nothing of the app runs."""
        _refuse_in_worker_process()
        self._check_process()
        if self._supervisor is not None:
            raise ConfigurationError(
                "app.producer: with members= the app runs in other processes, and this one only looks after "
                "them: send from on_start, on_stop or a handler, which run in each member."
            )
        messages = None if self._runtime is None else self._runtime.messages
        if messages is None or not messages.is_open:
            on_spark = f" On Spark it is not there: {_INSTEAD}" if "pyspark" in sys.modules else ""
            raise ConfigurationError(
                f"app.producer: the app is {self.state}, and it sends from on_start to on_stop.{on_spark}"
            )
        return messages

    def _close_producer(self) -> None:
        """Deliver the last messages, within the stop's time. The on_stop functions have returned by then."""
        runtime = self._runtime
        if runtime is None or not runtime.messages.is_open:
            return
        request = runtime.request_stop("the app ends")
        left_s = request.deadline_s - runtime.app.clock.now_s()
        runtime.messages.close(max(LAST_MESSAGES_S, left_s))

    def _check_process(self) -> None:
        raise NotImplementedError


def _refuse_in_worker_process() -> None:
    child = sys.modules.get("ehkafka.workers.processes.child")
    if child is not None and child.stop_parent is not None:
        raise ConfigurationError(f"app.producer is not there in a worker process: {_INSTEAD}")
