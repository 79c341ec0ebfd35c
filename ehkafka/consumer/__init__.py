"""The drop-in: `ehkafka.Consumer` in the place of `confluent_kafka.Consumer`, with one import changed.

Data flow: `choices` reads what the program asked for; `consumer` is a real `confluent_kafka.Consumer` with
some methods of its own, `polling` those of every record; `positions` (or `marks`, for programs whose threads
finish records in any order) knows what may be committed; `committing` reads what is asked for, `asks` and
`commits` put it into as few requests as the service takes, `turns` says who may send; `progress.committer`
sends them.

The room must never touch a `Message`, never commit what nobody asked for, and never start a thread before
a commit has to wait. Called by the program, on its own threads; `ehkafka-commits` sends what waits.
"""

from __future__ import annotations

from ehkafka.consumer.consumer import Consumer
from ehkafka.consumer.deserializing import DeserializingConsumer

__all__ = ["Consumer", "DeserializingConsumer"]
