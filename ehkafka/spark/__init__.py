"""Kafka and Event Hubs records on Apache Spark through PySpark, without a JAR.

`source/` is the data source of `spark.readStream.format("ehkafka")` and `spark.read.format("ehkafka")`,
`writer/` is what writes to topics, `sink/` writes streams into Blob Storage, `engine/` runs an app's handlers
in tasks. Spark finds them by the modules of `register/`, or as `shipped` gives them to a session.
`secrets` names how the broker is reached, so that no secret is in a plan, a checkpoint or a log, while
`option_names` refuses options by name; `jvm_options` makes the options of the JVM's connector. `versions`
checks which PySpark is there, `java_home` which Java, `workers_python` whether Spark's Python has this
package; `observing` shows a query to metrics; `shipped` lets planning processes import what `--py-files`
ships. `kept` has the clients that workers keep between tasks; `one_line` makes one line of an error,
`starting` starts queries, and `unread` names the columns that a query does not use.
Importing this room needs no PySpark; using it does.

The driver plans (Spark's planning process, one thread); each task reads its pieces in a worker process. The
source joins no consumer group.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ehkafka.spark.java_home import find_java_home
    from ehkafka.spark.jvm_options import kafka_options
    from ehkafka.spark.observing import observe
    from ehkafka.spark.shipped import register_formats
    from ehkafka.spark.source.lag import lag
    from ehkafka.spark.starting import start

# Loaded when a program asks for it: each process that plans or reads for Spark needs little of the room.
_MODULES = {
    "find_java_home": "java_home",
    "kafka_options": "jvm_options",
    "lag": "source.lag",
    "observe": "observing",
    "register_formats": "shipped",
    "start": "starting",
}
__all__ = ["find_java_home", "kafka_options", "lag", "observe", "register_formats", "start"]


def __getattr__(name: str) -> Any:
    """Load a name of the table."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
