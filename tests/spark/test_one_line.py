from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.spark.one_line import reported_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDES = "SPARK_HIDE_TRACEBACK"


@pytest.fixture(autouse=True)
def no_traceback_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what another test's error has hidden."""
    monkeypatch.delenv(HIDES, raising=False)


@reported_in_one_line()
def _fails(error: Exception) -> None:
    raise error


def _yields(error: Exception) -> Iterator[int]:
    with reported_in_one_line():
        yield 1
        raise error


def test_an_error_of_ours_is_its_class_and_one_line() -> None:
    """Nothing of where it was raised, and nothing of what it came from, which may hold a secret."""
    error = ConfigurationError("There is no\n  option 'a'.")
    error.__cause__ = KeyError("a secret")
    with pytest.raises(ConfigurationError) as refused:
        _fails(error)
    assert traceback.format_exception_only(refused.value) == [
        "ehkafka.errors.ConfigurationError: There is no option 'a'.\n"
    ]
    assert refused.value.__cause__ is None
    assert os.environ[HIDES] == "1"


def test_a_task_reads_up_to_its_error() -> None:
    """An error inside of a generator, too."""
    rows = _yields(EndpointError("gone"))
    assert next(rows) == 1
    with pytest.raises(EndpointError, match=r"^gone$"):
        next(rows)
    assert os.environ[HIDES] == "1"


@pytest.mark.parametrize("error", [ValueError("a defect"), KeyboardInterrupt()])
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    """They are nothing that a sentence of ours explains."""
    with pytest.raises(type(error)) as failed:
        _fails(error)
    assert failed.value is error
    assert HIDES not in os.environ
