"""The way to a topic for commands that look at it: the steps of a check up to there, in the same words.

Called on the main thread; the work runs on one of its own, so that Ctrl-C is heard at once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ehkafka.checks import broker, login
from ehkafka.checks.inspection import GRACE_S, Overdue, bounded
from ehkafka.checks.result import SETTINGS_CODE, NotMeasured, Problem
from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, TopicNotFoundError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

    from ehkafka.checks.inspection import Inspection

# Connecting, finding the topic, and what is asked of it first.
_STEPS = 3


def enter(inspection: Inspection, connect: Callable[[], object]) -> None:
    """Run `connect`, bounded; leave no client behind that it did not end well with."""
    try:
        bounded(connect, _STEPS * inspection.timeout_s + GRACE_S, "connect")
    except Overdue:
        inspection.give_up_client()
        raise EndpointError(
            f"{inspection.target.endpoint.name} did not answer in time. To find the cause, run: ehkafka check"
        ) from None
    except EhkafkaError:
        inspection.close()
        raise
    except BaseException:  # Ctrl-C: the thread may still use the client
        inspection.give_up_client()
        raise


def reach_topic(inspection: Inspection, name: str | None, *, refused_s: float = inf) -> Consumer:
    """Return the client once it may use the topic; `refused_s` is how long all addresses may refuse it.

    Without a name, only the broker is reached.

    Raises `EndpointError`, `ConfigurationError`, `TopicNotFoundError`, without a secret.
    """
    about = ""
    try:
        if inspection.mechanism == "OAUTHBEARER":
            _check_token(inspection)
        inspection.begin_step()
        login.auth(inspection, name, refused_s=refused_s)
        if name is not None:
            about = f", topic {name}"
            inspection.begin_step()
            broker.topic(inspection, name)
    except Problem as found:
        kind: type[EhkafkaError] = EndpointError
        if found.exit_code == SETTINGS_CODE:
            kind = ConfigurationError
        elif inspection.cluster is not None and name not in inspection.cluster.topics:
            kind = TopicNotFoundError
        raise reported(inspection, found, kind, about) from None
    return inspection.consumer()


def reported(
    inspection: Inspection, found: Problem, kind: type[EhkafkaError] = EndpointError, about: str = ""
) -> EhkafkaError:
    """Return a probe's problem as an error, clean; `about` follows the endpoint's name."""
    about, text, fix = map(inspection.cleaner.text, (about, found.text, found.fix))
    return kind(f"{inspection.target.endpoint.name}{about}: {ended(text)} {fix}")


def _check_token(inspection: Inspection) -> None:
    inspection.begin_step()
    try:
        login.token(inspection, None)
    except NotMeasured:
        return  # librdkafka fetches it by itself
