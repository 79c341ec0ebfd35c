"""The drop-in: `ehkafka.Consumer` in the place of `confluent_kafka.Consumer`, with one import changed.

`program_settings` reads what the program asked for, `deviations` what is ours and what is reported,
`internals` is what one consumer is made of, `keywords` what type checkers are shown of its arguments.
`consumer` is a real `confluent_kafka.Consumer` with some methods of its own, with `deserializing` and
`instrumented` on top of it; `polling` is the way of every record, with the program's `rebalances`.
`positions` (or `marks`, for programs whose threads finish records in any order) knows what may be committed.
`committing` reads what is asked for; `commit_requests` and `commit_sender` put it into as few requests as the
service takes, `access` says who is inside the client meanwhile, `between_polls` does what needs it alone.
`log_guard` sees whose log it is, by `carried_facts`. `mirrored` is the mirror, `ending` the end, with `close`
or without, and what keeps the program's callbacks from harm.

The room must never touch a `Message`, never commit what was not asked for, and never start a thread before a
commit has to wait. Called by the program, on its own threads; `ehkafka-commits` sends what waits, and
`ehkafka-close` makes the client's last calls.
"""

from __future__ import annotations

from ehkafka.consumer.consumer import Consumer
from ehkafka.consumer.deserializing import DeserializingConsumer

__all__ = ["Consumer", "DeserializingConsumer"]
