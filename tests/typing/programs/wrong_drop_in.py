"""Calls of the drop-in that do not fit: each marked line is an error."""

from __future__ import annotations

from typing import Any

import ehkafka

config: dict[str, Any] = {}
consumer = ehkafka.Consumer(config, contigous=True)  # error
ehkafka.Consumer(config, contiguous="yes")  # error
ehkafka.Consumer(config, sync_commit="later")  # error
ehkafka.Consumer(config, endpoint="localhost:9092")  # error
ehkafka.Consumer("localhost:9092")  # error
ehkafka.Consumer(config, error_callback=print)  # error
ehkafka.DeserializingConsumer(config, unmarked=3)  # error

consumer.subscribe("readings")  # error
consumer.subscribe(["readings"], on_assigned=print)  # error
consumer.subscribe(["readings"], on_assign=12)  # error
consumer.pol(1.0)  # error
consumer.poll(timeout="1")  # error
consumer.commit(asynchron=False)  # error
consumer.commit(offsets=3)  # error
consumer.committed([], timeout="1")  # error
consumer.committed([], time=1.0)  # error
consumer.store_offset(consumer.poll())  # error
consumer.poll().value()  # error
