"""pytest plugin of ehkafka: the fixtures `run_app`, `embedded_broker` and `embedded_broker_factory`.

Loaded by pytest in every project that has ehkafka installed, so it must import nothing but
pytest until a fixture is asked for, and register nothing else.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.embedded.broker import EmbeddedBroker
    from ehkafka.testing.in_test.app_test import AppTest


@pytest.fixture
def run_app() -> Iterator[Callable[..., AppTest]]:
    """Run apps until the test ends: takes what `ehkafka.testing.run` takes.

    What ends an app, and no `wait` has raised, fails the test at its end.
    """
    from ehkafka.testing.in_test.run import run  # noqa: PLC0415 - see above

    with ExitStack() as running:
        yield lambda app, **options: running.enter_context(run(app, **options))


@pytest.fixture
def embedded_broker(embedded_broker_factory: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """Run a local Kafka broker, without topics, until the test ends.

    - `embedded_broker_factory` (required): given by pytest.
    """
    return embedded_broker_factory()


@pytest.fixture
def embedded_broker_factory() -> Iterator[Callable[..., EmbeddedBroker]]:
    """Start local Kafka clusters: takes what `EmbeddedBroker` takes, closes them when the test ends."""
    from ehkafka.embedded.broker import EmbeddedBroker  # noqa: PLC0415 - see above

    with ExitStack() as running:

        def start(topics: dict[str, int] | None = None, *, brokers: int = 1) -> EmbeddedBroker:
            return running.enter_context(EmbeddedBroker(topics, brokers=brokers))

        yield start
