"""Whether somebody else redrives: asks the broker for the members of the group, before joining it.

Called once, on the caller's thread. A broker that cannot be asked (the embedded one has no administration)
is left to the second guard: the group gives a member that is not alone only a part of the partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ehkafka.endpoint.client import describe_error
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.endpoint.properties.layers import admin_properties
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from ehkafka.checks.target import Target

# The broker cannot say, or may not say it to us.
_NOT_REPORTED = {
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - the coordinator is only being made
}


def refuse_if_joined(target: Target, group: str, timeout_s: float) -> None:
    """Raise `ConfigurationError` where the group has a member, `EndpointError` where the broker is away."""
    admin = AdminClient(admin_properties(target.endpoint), logger=ClientLog(lambda _event: None))
    try:
        found = admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result()
    except KafkaException as error:
        if error.args[0].code() in _NOT_REPORTED:
            return
        text = ended(describe_error(error.args[0]))
        raise EndpointError(f"Cannot find out whether another redrive runs: {text}") from None
    if members := len(found.members):
        raise ConfigurationError(
            f"The group {group!r} has {members} member(s): another redrive runs. Wait until it ends, or name"
            " another group, which begins at the first letter."
        )
