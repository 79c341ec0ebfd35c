"""A real Apache Kafka broker on this machine.

`broker` is what tests use, `admin` what they do to topics and groups. `process` runs it with the `java` that
is there and the `jars` of a cache, in a `folder` with the `properties` of its listeners; `orphan_watch` kills
it when its owner died.
"""
