"""The drop-in for asyncio: `ehkafka.aio.AIOConsumer` in the place of `confluent_kafka.aio.AIOConsumer`.

`consumer` is confluent-kafka's own class over a drop-in `Consumer`: each call is a `job` on a thread, one at
a time, while the loop goes on. `held_back` is that `Consumer`, with records that count as given when a task
has them. `calls` shows type checkers what is asked, `callbacks` runs the program's callbacks on the loop,
`reentry` what they ask of the consumer.

The room must never block the loop, and never lose what a cancelled task was waiting for. Called by the
program's tasks on one event loop; what blocks runs on the threads of the consumer's executor.
"""

from __future__ import annotations

from ehkafka.aio.consumer import AIOConsumer

__all__ = ["AIOConsumer"]
