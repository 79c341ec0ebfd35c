"""Every public call with values that no caller means ends in one sentence, and none ends the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ehkafka.errors import TEXT_CHARACTERS_MAX

PROGRAM = Path(__file__).parent / "hostile_values.py"
CRASHES_MAX = 20
OURS = {"ConfigurationError", "MissingExtraError"}
# What a program that used confluent-kafka's consumer expects of a bad argument, and a handler of its signals.
CONFLUENTS = OURS | {"KafkaException", "TypeError", "ValueError", "UnicodeEncodeError", "RuntimeError"}
OF_CONFLUENT = (
    "Consumer({", "Consumer(…)", "Consumer(default", "DeserializingConsumer(", "TopicPartition(",
    "subscribe(", "list_topics(", "committed(", "seek(", "store_offsets(", "incremental_assign(",
    "commit(", "pause(",
)  # fmt: skip
OF_SIGNALS = ("RetryLater(",)


@pytest.fixture(scope="module")
def ended() -> dict[str, list[str]]:
    """Return each call with the kind and text of its error, empty where it was accepted."""
    found: dict[str, list[str]] = {}
    crashed: list[str] = []
    first, code = 0, 1
    while code != 0 and len(crashed) < CRASHES_MAX:
        code, lines = _run(first)
        found |= {name: error for _, name, *rest in lines for error in rest}
        if code != 0:
            assert lines, "the program did not begin"
            first = lines[-1][0] + 1
            crashed.append(f"{lines[-1][1]} ended the process with {code}")
    assert crashed == []
    assert len(found) > 5_000
    return found


def _run(first: int) -> tuple[int, list[Any]]:
    # No credential may ask for this machine's identity.
    identity = {"IDENTITY_ENDPOINT": "http://127.0.0.1:9/", "IDENTITY_HEADER": "none"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(first)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **identity},
        timeout=100,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_hostile_values_are_refused_by_an_error_of_ours(ended: dict[str, list[str]]) -> None:
    """No AttributeError or TypeError from within; confluent-kafka's own calls keep its errors."""
    wrong = {}
    for call, error in ended.items():
        allowed = CONFLUENTS if call.startswith((*OF_CONFLUENT, *OF_SIGNALS)) else OURS
        if error and error[0] not in allowed:
            wrong[call] = error[:2]
    assert wrong == {}


def test_a_refusal_repeats_no_long_value(ended: dict[str, list[str]]) -> None:
    """A value of 100 000 characters is cut; what happened and what to do stay, at both ends."""
    ours = {c: error for c, error in ended.items() if error and not c.startswith(OF_CONFLUENT)}
    long = {call: len(error[1]) for call, error in ours.items() if len(error[1]) > TEXT_CHARACTERS_MAX + 50}
    assert long == {}
    text = ended["App(drain=…) long"][1]
    assert text.startswith("drain='xxx")
    assert text.endswith("use 'started', 'all' or 'running'.")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("Consumer({'group.id': …}) no utf-8", "Consumer: the value of group.id is not UTF-8"),
        ("Consumer({'group.id': …}) nul", "Consumer: the value of group.id contains a NUL character"),
        ("Consumer({'group.id': …}) blank", "group.id must be set"),
        ("Consumer({'group.id': …}) none", "group.id must be set"),
        ("Consumer({'group.id': …}) long", "Kafka's protocol allows 32767"),
        ("Consumer(…) dict of no utf-8", "Consumer: a property's name is not UTF-8"),
        ("subscribe([…]) no utf-8", "Consumer.subscribe: the topic 'caf\\udce9' is not UTF-8"),
        ("TopicPartition(…) long", "has 100000 characters, but Kafka allows 249"),
        ("incremental_assign(…) long", "has 100000 characters, but Kafka allows 249"),
        ("Endpoint.embedded(…) blank", "the embedded broker's topics are of type str"),
        ("Endpoint.from_env(…) zero", "the environment is of type int, not a mapping"),
        ("Endpoint.from_env(prefix=…) none", "prefix is of type NoneType"),
        ("Endpoint.from_settings(…) none", "the settings are of type NoneType, not a mapping"),
        ("embedded.prepare_topics([…]) none", "None is no topic name"),
        ("Consumer(endpoint=…) object", "endpoint=object is no Endpoint; make one with"),
        ("Consumer(mirror=…) object", "Consumer(mirror=…): object is not a mirror"),
        ("FileStore(…) none", "FileStore: None is not the path of a folder"),
        ("app.handler(…) no utf-8", "is not the name of a topic: give each topic as text"),
        ("DeadLetter(to=…) no utf-8", "give the name of the dead-letter topic"),
        ("App(stop_s=…) huge", "it must be a number from 0 to 31622400"),
        ("app.stop(timeout_s=…) empty", "stop(timeout_s='') is not a time: give seconds"),
        ("RetryLater(after_s=…) huge", "a week"),
    ],
)
def test_a_hostile_value_is_reported_in_one_sentence(
    ended: dict[str, list[str]], call: str, text: str
) -> None:
    """These ended the process, came as bare errors of Python, or were accepted."""
    assert ended[call], "accepted"
    assert text.lower() in ended[call][1].lower()
    assert "\n" not in ended[call][1]
