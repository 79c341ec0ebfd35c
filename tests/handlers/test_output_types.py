"""Handlers that would send values of different codecs to one topic are refused, where annotations show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.handlers.output_types import check_output_types
from ehkafka.handlers.spec import HandlerSpec


@dataclass
class Reading:
    """Something that is sent as JSON."""

    celsius: float


def returning(annotation: Any, topic: str = "out", *more: str) -> HandlerSpec:
    """Return a handler that is annotated so."""

    def handle(record: Any) -> Any: ...

    handle.__annotations__["return"] = annotation
    return HandlerSpec(topics=("t",), function=handle, to=(topic, *more))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Reading, bytes),
        (dict, str),
        (bytes, str),
        (Reading | None, bytes | None),
        (list[Reading], bytes),
        (Iterator[dict], tuple[bytes, ...]),
        ("Reading", "bytes | None"),
        (Optional[Reading], bytes),  # noqa: UP045 - as older programs write it
    ],
)
def test_two_codecs_of_one_topic_are_refused(one: Any, other: Any) -> None:
    """The error names the topic and both handlers' kinds."""
    with pytest.raises(ConfigurationError, match=r"'handle' and 'handle' send .* to topic 'out'"):
        check_output_types([returning(one), returning(other)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Reading, dict),
        (Reading, dict[str, float] | None),
        (Reading, Any),
        (Reading, None),
        (Reading, ehkafka.Send),
        (Reading, list[ehkafka.Send]),
        (Reading, list),
        (Reading, bytes | Reading),
        (Reading, "SomethingForTypeCheckersAlone"),
    ],
)
def test_what_is_the_same_or_not_known_is_taken(one: Any, other: Any) -> None:
    """A doubt refuses nothing."""
    check_output_types([returning(one), returning(other)])


def test_topics_are_compared_each_for_itself() -> None:
    """What is returned goes to the first topic; the others are for `Send`."""
    check_output_types([returning(Reading, "a"), returning(bytes, "b")])
    check_output_types([returning(Reading, "a", "b"), returning(bytes, "b", "a")])


def test_a_class_s_process_and_a_coroutine_say_it_too() -> None:
    """As a function does."""

    class Watch:
        def process(self, record: Any) -> Reading: ...  # type: ignore[empty-body]

    async def watch(record: Any) -> bytes: ...  # type: ignore[empty-body]

    of_class = HandlerSpec(topics=("t",), function=Watch, to=("out",))
    of_coroutine = HandlerSpec(topics=("u",), function=watch, to=("out",))
    with pytest.raises(ConfigurationError, match=r"'Watch' and 'watch' .*: Reading as JSON, and bytes"):
        check_output_types([of_class, of_coroutine])
