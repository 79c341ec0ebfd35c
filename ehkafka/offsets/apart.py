"""The search behind a batch that cannot be read, in a process of its own.

librdkafka can end the process that meets a wrong checksum: it then takes bytes of the damaged batch for the
next one. What a command asks must not depend on these bytes. Properties and credentials go by a pipe.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import Consumer

from ehkafka.positions.next_readable import FIND_S, NextReadable, next_readable
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

# How long the process may take in addition to its search.
_START_S: Final = 20.0
_COMMAND: Final = (sys.executable, "-c", "from ehkafka.offsets.apart import main; main()")


def next_readable_apart(
    properties: Mapping[str, Any], partition: TopicPartition, offset: int
) -> NextReadable | None:
    """Return what `next_readable` does; None also where librdkafka has ended the process that searched.

    Raises `KafkaException` as that does.
    """
    plain = {name: value for name, value in properties.items() if isinstance(value, str | int | float)}
    ask_token = properties.get("oauth_cb")
    question = {
        "properties": plain,
        "token": ask_token and ask_token(plain.get("sasl.oauthbearer.config", ""))[:2],
        "place": [*partition, offset, FIND_S],
    }
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            _COMMAND,
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=FIND_S + _START_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode < 0:
        return None
    if done.returncode:
        raise RuntimeError(f"The search failed ({done.returncode}): {done.stderr.decode(errors='replace')}")
    answer = json.loads(done.stdout)
    if (error := answer.get("error")) is not None:
        raise KafkaException(KafkaError(*error))
    found = answer["found"]
    return found and NextReadable(found[0], tuple((at, reason) for at, reason in found[1]))


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    properties = dict(question["properties"])
    if (token := question["token"]) is not None:
        properties["oauth_cb"] = lambda _config: tuple(token)
    topic, number, offset, timeout_s = question["place"]
    try:
        found = next_readable(
            lambda own: Consumer({**properties, **own}), TopicPartition(topic, number), offset, timeout_s
        )
    except KafkaException as failed:
        error = failed.args[0]
        return {"error": [error.code(), error.str()]}
    return {"found": found and [found.offset, found.passed]}


def main() -> None:
    """Answer the question that comes by the pipe."""
    json.dump(_answer(json.load(sys.stdin)), sys.stdout)
