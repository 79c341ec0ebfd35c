"""The options of an app: its endpoint, settings, handlers and hooks, as one frozen value.

`App` makes it from its decorators when it starts; the runtime, its parts and the engine on Spark read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client_name import client_name, numbered
from ehkafka.endpoint.properties.ahead import Ahead
from ehkafka.endpoint.properties.layers import consumer_properties
from ehkafka.intake.hook_threads import PartitionHooks
from ehkafka.recovery.policy import letter_topics
from ehkafka.settings.clock import REAL_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Hook
    from ehkafka.events.history import History
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.run.ending import RunUntil
    from ehkafka.settings import Settings
    from ehkafka.workers.tasks.shared import SharedLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """One app. On Spark `on_start` and `on_stop` run on the driver, all other functions on executors."""

    endpoint: Endpoint
    settings: Settings
    specs: tuple[HandlerSpec, ...]
    # Outermost first.
    middleware: tuple[object, ...] = ()
    partition_hooks: PartitionHooks = field(default_factory=PartitionHooks)
    on_error: Callable[..., object] | None = None
    on_start: tuple[Callable[[], object], ...] = ()
    on_stop: tuple[Callable[[], Any], ...] = ()
    worker_set_up: Callable[[], None] | None = None
    worker_tear_down: Callable[[], None] | None = None
    event_hooks: tuple[Hook, ...] = ()
    history: History | None = None
    mirror: MirrorChoice | None = None
    # None: the run continues until it is stopped.
    until: RunUntil | None = None
    # What all of the run asks for the time.
    clock: Clock = REAL_CLOCK
    # The loop of all coroutines; None: each async handler has one of its own.
    shared_loop: SharedLoop | None = None
    # Which consumer of the process its own is, for the name that brokers see.
    client_number: int = 1

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all handlers, sorted."""
        return tuple(sorted({topic for spec in self.specs for topic in spec.topics}))

    @property
    def output_topics(self) -> set[str]:
        """The topics that handlers send to."""
        return {topic for spec in self.specs for topic in spec.to}

    @property
    def letter_topics(self) -> set[str]:
        """The topics to which handlers send dead letters."""
        return letter_topics(spec.on_failure for spec in self.specs)

    def consumer_properties(self, apps: int = 1) -> dict[str, Any]:
        """Return librdkafka's for the run's consumer, one of so many apps, with the key of this moment."""
        properties = properties_of(self.endpoint, self.settings, apps)
        if properties["client.id"] == client_name():  # else the program gave one
            properties["client.id"] = numbered(self.client_number)
        return properties


def ahead_of(settings: Settings, apps: int = 1) -> Ahead:
    """Return how much each of so many apps with these settings fetches ahead."""
    return Ahead.of(settings.backlog_records_max, settings.backlog_bytes_max, apps)


def properties_of(endpoint: Endpoint, settings: Settings, apps: int = 1) -> dict[str, Any]:
    """Return librdkafka's for the consumer of one of so many apps with these settings."""
    return consumer_properties(
        endpoint,
        settings.group,
        settings.consumer,
        assignor=settings.assignor,
        instance_id=settings.instance_id,
        ahead=ahead_of(settings, apps),
    )
