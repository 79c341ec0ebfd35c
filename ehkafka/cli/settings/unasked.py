"""What `./ehkafka.toml` may say where no option names it: write access to a folder must not yield a key.

A person who types `ehkafka lag` does not look at the folder first. So the file that lies there may describe
a broker of its own, with a key of its own, and set the pace of a client. It may not send the environment's
key, token or certificate anywhere, weaken the check of a certificate, or name what librdkafka loads, reads,
runs or asks. A list of what is harmless, not of what is dangerous: librdkafka learns new properties. Pure.

`namespace` stays free: its host is always one of Event Hubs', and a token for it opens no other namespace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ehkafka.app.configuration import in_one_spelling, is_secret
from ehkafka.cli.settings.layer import OF_PROPERTIES
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ehkafka.cli.settings.layer import Layer

# Sizes, times, names and counts. Nothing with a path, an address, a command or a word of TLS in it.
_HARMLESS = re.compile(
    r"(acks|allow\.auto\.create\.topics|auto\.(commit|offset)\.[a-z.]+|batch\.[a-z.]+"
    r"|broker\.address\.(family|ttl)|check\.crcs|client\.(id|rack)|compression\.[a-z]+"
    r"|connections\.max\.idle\.ms|coordinator\.query\.interval\.ms"
    r"|enable\.(auto\.commit|auto\.offset\.store|idempotence|metrics\.push|partition\.eof)"
    r"|fetch\.[a-z.]+|group\.[a-z.]+|heartbeat\.interval\.ms|isolation\.level|linger\.ms|log\.[a-z.]+"
    r"|log_level|max\.[a-z.]+|message\.[a-z.]+|metadata\.(max\.age\.ms|recovery\.[a-z.]+)"
    r"|partition\.assignment\.strategy|partitioner|queue\.buffering\.[a-z.]+|queued\.[a-z.]+"
    r"|receive\.message\.max\.bytes|reconnect\.backoff\.[a-z.]+|request\.timeout\.ms|retries"
    r"|retry\.backoff\.[a-z.]+|session\.timeout\.ms|socket\.[a-z.]+|statistics\.interval\.ms"
    r"|sticky\.partitioning\.linger\.ms|topic\.metadata\.[a-z.]+|transaction\.timeout\.ms|transactional\.id)"
)
# Of a broker that the file itself names, with its own user.
_OWN_LOGIN = {"security.protocol", "sasl.mechanisms", "sasl.username", "sasl.password"}
# The others use what this machine or its user has: a ticket, a managed identity, a command.
_OWN_MECHANISMS = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}


def check_unasked(path: Path, layer: Layer) -> None:
    """Refuse what the file may say only when it was named. Raises `ConfigurationError`, without a value."""
    for table in OF_PROPERTIES:
        for name, value in in_one_spelling(layer.values(table), f"{path}: {table}").items():
            if not _may_say(name, value, is_own=table == "endpoint.properties"):
                raise ConfigurationError(
                    f"{path}: {table}.{name} is refused, because no option names this file. A file that "
                    f"was only found in the folder cannot set where a key is sent, how a broker is "
                    f"checked, or which files are loaded. If you trust the file, name it: --config {path}."
                )


def check_credentials(file: Path | None, properties: Mapping[str, object], origins: Iterable[str]) -> None:
    """Refuse to send a login that others gave to the broker that an unasked file names.

    `origins` says where each of the properties stands. Raises `ConfigurationError`, without a value.
    """
    for name, origin in zip(properties, origins, strict=True):
        if not origin.startswith(f"{file}: ") and (name.startswith(("sasl.", "oauth")) or is_secret(name)):
            raise ConfigurationError(
                f"{name} ({origin}) would be sent to a broker that {file} names, but no option names that "
                f"file. Such a file could send your login to any server. If you trust the file, name it: "
                f"--config {file}."
            )


def _may_say(name: str, value: object, *, is_own: bool) -> bool:
    if _HARMLESS.fullmatch(name):
        return True
    if name == "sasl.mechanisms":
        return is_own and str(value).strip().upper() in _OWN_MECHANISMS
    return is_own and name in _OWN_LOGIN
