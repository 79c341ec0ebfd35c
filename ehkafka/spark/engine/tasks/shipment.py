"""What goes to the executors: handlers and hooks, pickled by value or by the name of their module.

Packed on the driver, once, before the first batch; unpacked in each of Spark's Python workers. Never holds an
endpoint, a property or any other setting that may be secret. Raises `ConfigurationError` on both sides, so
that what is wrong is one sentence on the driver.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, describe
from ehkafka.intake.hook_threads import PartitionHooks
from ehkafka.recovery.policy import DeadLetter
from ehkafka.run.options import AppOptions
from ehkafka.settings import Settings
from ehkafka.wording import ended
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.handlers.spec import HandlerSpec

    # Options of an app, by name; of `settings` those of `_SETTINGS`, and `producer`.
    Shipped = Mapping[str, Any]

# What of the settings counts where records are handled. None of it may be secret.
_SETTINGS = (
    "group", "max_age", "backlog_records_max", "backlog_bytes_max", "consume_records_max",
    "parked_records_max", "parked_bytes_max", "stop_s", "connect_s", "stuck_s",
)  # fmt: skip


# What of `App(producer=…)` is shipped: how messages are sent, and nothing about who may.
_PRODUCER = frozenset(
    {"partitioner", "linger.ms", "batch.size", "batch.num.messages", "compression.type", "compression.codec",
     "compression.level", "message.max.bytes", "message.timeout.ms", "request.timeout.ms", "retry.backoff.ms"}
)  # fmt: skip


def to_ship(app: AppOptions) -> Shipped:
    """Return the part of an app that runs in a task. Raises `ConfigurationError`."""
    hooks = app.partition_hooks
    return {
        "specs": tuple(map(_as_run_in_a_task, app.specs)),
        "middleware": app.middleware,
        "partition_hooks": PartitionHooks(on_assigned=hooks.on_assigned, on_revoked=hooks.on_revoked),
        "on_error": app.on_error,
        "worker_set_up": app.worker_set_up,
        "worker_tear_down": app.worker_tear_down,
        "settings": {name: getattr(app.settings, name) for name in _SETTINGS}
        | {"producer": _shipped_properties(app.settings.producer)},
    }


def app_of(found: Shipped, endpoint: Endpoint) -> AppOptions:
    """Return what a task's run is made of."""
    settings = Settings(start="earliest", **found["settings"])
    return AppOptions(endpoint=endpoint, **{**found, "settings": settings})


def pack(app: AppOptions, folders: tuple[str, ...] = ()) -> bytes:
    """Return what is shipped of an app; `folders` are looked in for modules on the other side, if there.

    Raises `ConfigurationError` that names the part which cannot be sent.
    """
    found = to_ship(app)
    try:
        packed = _dumps(found)
    except Exception as error:
        raise _unpicklable(found, error) from error
    return pickle.dumps((folders, packed))


def unpack(packed: bytes) -> Shipped:
    """Return what was shipped. Raises `ConfigurationError` where its modules are missing."""
    folders, body = pickle.loads(packed)  # noqa: S301 - made by our own driver, for this very query
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    try:
        return pickle.loads(body)  # type: ignore[no-any-return]  # noqa: S301 - as above
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"Spark's executors cannot import {error.name!r}, which the app needs. Ship the module with the "
            "app (spark-submit --py-files, or spark.sparkContext.addPyFile), or install it on the executors."
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"Spark's executors cannot load the app: {ended(describe(error).rstrip('.'))} The "
            f"executors import the app's modules, so files and environment variables that the modules read "
            f"must exist on the executors' machines."
        ) from error


def _named_parts(found: Shipped) -> Iterator[tuple[str, Any]]:
    """Yield what the user wrote, with names for errors."""
    for spec in found["specs"]:
        where = f"handler {spec.name!r}"
        yield where, spec.function
        yield f"what {where} decodes to", spec.payload
        yield f"order_by of {where}", spec.order_by
        yield f"retry of {where}", spec.retry
        if isinstance(spec.on_failure, DeadLetter):
            yield f"the dead letters' function of {where}", spec.on_failure.to
    for number, one in enumerate(found["middleware"], 1):
        yield f"middleware {number} ({getattr(one, '__name__', type(one).__name__)!r})", one
    yield "on_error", found["on_error"]
    yield "on_worker_start", found["worker_set_up"]
    yield "on_worker_stop", found["worker_tear_down"]
    yield "on_assigned", found["partition_hooks"].on_assigned
    yield "on_revoked", found["partition_hooks"].on_revoked


def _shipped_properties(producer: Mapping[str, object]) -> dict[str, Any]:
    if others := sorted(name for name in producer if name.replace("_", ".").lower() not in _PRODUCER):
        raise ConfigurationError(
            f"On Spark, App(producer=…) may have {', '.join(sorted(_PRODUCER))}, but this app has "
            f"{', '.join(others)}: set these properties on the endpoint, which reaches the executors safely."
        )
    return dict(producer)


def _as_run_in_a_task(spec: HandlerSpec) -> HandlerSpec:
    # A start is the driver's business, and may be a function that need not be sent.
    spec = replace(spec, start=None)
    # Each task is a process of its own already, with a core of its own.
    return replace(spec, workers=1) if isinstance(spec.workers, Processes) else spec


def _unpicklable(found: Shipped, error: Exception) -> ConfigurationError:
    for name, part in _named_parts(found):
        try:
            _dumps(part)
        except Exception as own:
            return ConfigurationError(
                f"{name} cannot be sent to Spark's executors: {ended(describe(own))} Spark sends a function "
                "with all that it refers to. Open connections, locks and the like in on_worker_start or "
                "inside the function, or put the function into a module that the executors can import."
            )
    return ConfigurationError(f"The app cannot be sent to Spark's executors: {ended(describe(error))}")


def _dumps(thing: object) -> bytes:
    from pyspark import cloudpickle  # noqa: PLC0415 - an extra, needed on the driver only

    return cloudpickle.dumps(thing)  # type: ignore[no-any-return, no-untyped-call]
