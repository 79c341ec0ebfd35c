"""What an app learnt from its decorators, as the engine on Spark takes it. Values alone, made by `App`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Hook
    from ehkafka.events.history import History
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.intake.context import PartitionHooks
    from ehkafka.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AppParts:
    """One app's handlers and hooks. `on_start` and `on_stop` run on the driver, all else on executors."""

    endpoint: Endpoint
    settings: Settings
    specs: tuple[HandlerSpec, ...]
    middleware: tuple[Any, ...]
    partition_hooks: PartitionHooks
    on_error: Callable[..., Any] | None
    on_start: tuple[Callable[[], Any], ...]
    on_stop: tuple[Callable[[], Any], ...]
    worker_set_up: Callable[[], None] | None
    worker_tear_down: Callable[[], None] | None
    event_hooks: tuple[Hook, ...]
    history: History | None
    mirror: MirrorChoice | None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all handlers, sorted."""
        return tuple(sorted({topic for spec in self.specs for topic in spec.topics}))
