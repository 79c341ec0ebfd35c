"""Lets an error of ours be one line of what Spark shows, instead of the last of a traceback's.

Used around each function that Spark calls in its planning processes and in its workers' tasks.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

# PySpark looks at it when it writes down the error that ends a Python process of Spark's.
_HIDES = "SPARK_HIDE_TRACEBACK"


@contextmanager
def reported_in_one_line() -> Iterator[None]:
    """Raise an `EhkafkaError` of the block again, as its class and one line; a decorator, too.

    All other errors keep their traceback: they are defects. A generator needs the block inside of it.
    """
    try:
        yield
    except EhkafkaError as error:
        # The process reports this error and ends, so no other error loses its traceback.
        os.environ[_HIDES] = "1"
        raise as_reported(error) from None


def as_reported(error: EhkafkaError) -> EhkafkaError:
    """Return an error with its text in one line, so that it can be found again in a traceback."""
    reported = type(error)(as_line(error))
    reported.__cause__ = error.__cause__
    return reported


def as_line(error: EhkafkaError) -> str:
    """Return its text without line ends, and without what UTF-8 cannot say: the JVM takes nothing else."""
    return " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode("utf-8")
