"""The exception tree, split by what the caller can do.

```
EhkafkaError
├── ConfigurationError      fix a setting or the code; nothing was started          exit 2
│   └── MissingExtraError   install an extra                                        exit 2
├── EndpointError           fix the address, network, rights or topic; then restart exit 3
│   ├── TopicNotFoundError  create the topic or correct its name                    exit 3
│   └── OffsetGapError      decide where to continue: the log no longer has the offset exit 3
├── HandlerFailedError      fix the handler or the record; it is redelivered        exit 1
├── WorkerDiedError         see why a worker process ended: memory, a crash, a kill exit 1
├── UnfinishedError          a stop left started records unfinished or unsaved       exit 4
├── FencedError             another process runs with the same instance id          exit 5
├── NotDeliveredError       see what it names: a message of app.producer is not sent  exit 1
├── GroupInUseError         stop the group's consumers, then move its offsets        exit 5
├── ActionRefusedError      see what it names: an action on a key changed nothing    exit 7
└── EngineError             a defect in ehkafka, or a dead thread; please report    exit 70
```

Every message says what happened, where, and what to do next. None carries a secret.
"""

from __future__ import annotations

from typing import ClassVar, Final

TEXT_CHARACTERS_MAX: Final = 2_000
"""Longest text of an error: whatever a value that it repeats may hold."""


class EhkafkaError(Exception):
    """Anything this package raises on purpose. `exit_code` is what `ehkafka run` ends with."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        """Return what happened and what to do; of a long text the begin and the end, where these stand."""
        return _shortened(super().__str__())


class ConfigurationError(EhkafkaError):
    """A setting, an argument or the wiring of the app is wrong; nothing was started."""

    exit_code: ClassVar[int] = 2


class MissingExtraError(ConfigurationError):
    """A feature needs an optional dependency; the message names the extra to install."""


class EndpointError(EhkafkaError):
    """The broker cannot be reached or refuses us in a way that waiting does not cure."""

    exit_code: ClassVar[int] = 3


class TopicNotFoundError(EndpointError):
    """A subscribed topic does not exist, or disappeared while the app ran."""


class OffsetGapError(EndpointError):
    """The position to read from is no longer in the log (retention, or another log)."""


class HandlerFailedError(EhkafkaError):
    """A handler raised and the failure policy is `Stop()`. `__cause__` is the handler's own error."""

    exit_code: ClassVar[int] = 1


class WorkerDiedError(EhkafkaError):
    """A worker process ended by itself. The record that it ran, if any, counts as failed by this error."""


class UnfinishedError(EhkafkaError):
    """A stop left a started record without an outcome, or finished ones unsaved; the message names them."""

    exit_code: ClassVar[int] = 4


class FencedError(EhkafkaError):
    """The group fenced this member: another process uses the same `group.instance.id`."""

    exit_code: ClassVar[int] = 5


class NotDeliveredError(EhkafkaError):
    """A message of `app.producer` was refused, timed out, or found no room; the text says which, and why."""


class ActionRefusedError(EhkafkaError):
    """An action on a key, a partition or a handler was refused, and nothing changed; the message says why.

    - `reason` (required): one word for programs: `invalid`, `unknown`, `ambiguous`, `elsewhere`, `moved`,
      `running`, `queued`, `waiting`, `paused`, `no_dead_letter`, `busy` or `stopped`.
    - `text` (required): the message.
    - `names` (default `()`): of keys or handlers that were meant, perhaps.
    """

    exit_code: ClassVar[int] = 7

    def __init__(self, reason: str, text: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.reason = reason
        self.names = names

    def __reduce__(self) -> tuple[type[ActionRefusedError], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.reason, self.args[0], self.names)


class GroupInUseError(EhkafkaError):
    """A group's offsets were to be moved while members consume with it; the message says what moved."""

    exit_code: ClassVar[int] = 5


class EngineError(EhkafkaError):
    """A thread of the engine died of an unknown error; the whole app stops visibly."""

    exit_code: ClassVar[int] = 70


def describe(error: BaseException) -> str:
    """Return an error's type and text; never raises, though the error's own `__str__` may.

    A long text is cut: it is kept for each key that waits, logged and shown.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as broken:
        return f"{name} (its text could not be made: {type(broken).__name__})"
    # Some errors' own text begins with their type.
    return _shortened(text if text.startswith(f"{name}: ") else f"{name}: {text}" if text else name)


def _shortened(text: str) -> str:
    half = TEXT_CHARACTERS_MAX // 2
    left_out = len(text) - 2 * half
    return text if left_out <= 0 else f"{text[:half]} … {left_out} characters … {text[-half:]}"
