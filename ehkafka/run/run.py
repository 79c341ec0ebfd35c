"""An app holds a `Run` while it runs: in this process, in members, or on Spark.

All methods may be called from any thread. `runtime.Runtime`, the members' `Supervisor` and Spark's `SparkRun`
are runs; a `PlainRun` stands for one before the first start.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.run.steer.action import Action, ActionResult
    from ehkafka.run.steer.keys import KeyState
    from ehkafka.settings import Drain
    from ehkafka.telemetry.snapshot import Health, Snapshot

State = Literal["new", "starting", "running", "stopping", "stopped"]


class Run:
    """One run of an app. It is asked by the app, and by the HTTP side, a command and a member about it.

    What a kind of run does not have is answered here: no key, no thread, nothing to wait for.
    """

    @property
    def state(self) -> State:
        """The state of its life cycle."""
        raise NotImplementedError

    @property
    def failure(self) -> EhkafkaError | None:
        """The error that ends it, if any."""
        return None

    @property
    def is_reaching(self) -> bool:
        """Whether its start waits for a token or the broker."""
        return False

    def snapshot(self) -> Snapshot:
        """Return an immutable picture of it as it is now."""
        raise NotImplementedError

    def health(self) -> Health:
        """Return whether all is well, else the reasons."""
        from ehkafka.telemetry.snapshot import Health  # noqa: PLC0415 - few ask an app that never ran

        return Health(self.not_started() if self.failure is None else (str(self.failure),))

    def not_live(self) -> tuple[str, ...]:
        """Return what only a restart of the process cures; mostly nothing."""
        return ()

    def not_started(self) -> tuple[str, ...]:
        """Return what it waits for before it is a member of its group; nothing from then on."""
        return () if self.state == "running" else (f"The app is {self.state}.",)

    def not_ready(self) -> tuple[str, ...]:
        """Return why it does not do its work now: no broker, no group, a stop. Records are no reason."""
        return self.not_started()

    def keys(self, *, values: bool = False) -> list[KeyState]:  # noqa: ARG002 - there is none
        """Return the keys that hold a commit, then others that wait by themselves."""
        return []

    def act(self, action: Action) -> ActionResult:  # noqa: ARG002 - nothing can be done
        """Carry an action out. Raises `ActionRefusedError`: then nothing has changed."""
        from ehkafka.run.steer.action import not_running  # noqa: PLC0415 - as above

        raise not_running(self.state)

    def log_state(self, why: str) -> None:
        """Log what it does now; may return before that is done."""

    def measure(self) -> None:
        """Count from now on how long calls of handlers take."""

    def resize(self, handler: str, workers: int) -> None:  # noqa: ARG002 - not here
        """Change how many workers a handler has. Raises `ConfigurationError` where none runs here."""
        raise ConfigurationError(
            f"resize({handler!r}): the app is {self.state}; set workers= where the handler is registered."
        )

    def own_producer(self) -> OwnProducer | None:
        """Return what `app.producer` sends with, None where that is closed. Raises `ConfigurationError`."""
        return None

    def request_stop(
        self,
        reason: str,  # noqa: ARG002 - nothing runs
        *,
        drain: Drain | None = None,  # noqa: ARG002
        timeout_s: float | None = None,  # noqa: ARG002
    ) -> float | None:
        """Ask for a stop, and return at once within how many seconds it ends; None where that is unknown."""
        return 0.0

    def wait(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as above
        """Wait until it has ended; False when the time-out came first."""
        return True

    def owns(self, thread: threading.Thread) -> bool:  # noqa: ARG002 - as above
        """Tell whether a thread must not wait for the end. Of the present thread only."""
        return False

    def finish(self) -> None:
        """Do what follows its end, once, on the thread that stops the app."""


class PlainRun(Run):
    """A run that shows only its state. `named` returns group, endpoint and state."""

    def __init__(self, named: Callable[[], tuple[str, str, State]]) -> None:
        self._named = named

    @property
    def state(self) -> State:
        """The state of its life cycle."""
        return self._named()[2]

    def snapshot(self) -> Snapshot:
        """Return one without partitions."""
        from ehkafka.telemetry.snapshot import Snapshot  # noqa: PLC0415 - few ask an app that never ran

        return Snapshot.empty(*self._named(), time.time())
