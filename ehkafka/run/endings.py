"""Which errors end a run, in words: a dead thread of ours, the user's code that must not fail. Pure."""

from __future__ import annotations

from ehkafka.errors import EhkafkaError, EngineError, describe
from ehkafka.wording import ended


def death_of(what: str, error: BaseException) -> EhkafkaError:
    """Return what ends a run whose thread died: the error itself, if it says what to do."""
    if isinstance(error, EhkafkaError):
        return error
    failure = EngineError(f"{what} failed: {error!r}. Please report it.")
    failure.__cause__ = error
    return failure


def fatal_in_user_code(where: str, error: BaseException) -> EhkafkaError | None:
    """Return what ends a run whose hook raised; None where it goes on without it."""
    if where.startswith("opening"):
        failure = EhkafkaError(
            f"{where} failed: {ended(describe(error))} Its records were not handled. Fix the hook."
        )
    elif not isinstance(error, Exception):
        failure = EhkafkaError(
            f"{where} tried to end the process: {ended(describe(error))} Call App.stop() to stop an app."
        )
    else:
        return None
    failure.__cause__ = error
    return failure
