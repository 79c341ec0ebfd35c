"""From an error inside a task, or inside Spark itself, to one sentence on the driver. Imports no PySpark.

A task's error travels as the text of a Python traceback inside of Java's. Ours are found in there by the
name of their class.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ehkafka import errors
from ehkafka.errors import EhkafkaError, EngineError
from ehkafka.spark.one_line import as_line
from ehkafka.wording.error_stack import place_of

if TYPE_CHECKING:
    from typing import Final

_OURS: Final = re.compile(r"ehkafka\.errors\.(\w+): ([^\n]+)")
# Spark gives the process that plans a query ten seconds to start, which a very busy machine may not keep.
_TOO_LATE: Final = "Python worker failed to connect back"
_UNSET: Final = re.compile(r"the variable (\w+) is not set in this process")
_SHOWN_CHARACTERS_MAX = 600
_JAVA_CHARACTERS_MAX = 200


def as_text(error: EhkafkaError) -> str:
    """Return an error as `failure_of` reads it, with the line of the user's code that it comes from."""
    reported = f"{EhkafkaError.__module__}.{type(error).__name__}: {as_line(error)}"
    place = "" if error.__cause__ is None else place_of(error.__cause__)
    return f"{reported} Raised in {place}." if place else reported


def is_of_ours(shown: str) -> bool:
    """Tell whether Spark shows an error of ours."""
    return _OURS.search(shown) is not None


def is_too_late(shown: str) -> bool:
    """Tell whether a query has ended because the process that plans it took too long to start."""
    return _TOO_LATE in shown


def failure_of(shown: str) -> EhkafkaError:
    """Return the error that ended a query, by what Spark shows of it."""
    found = _OURS.findall(shown)
    for name, text in reversed(found):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, EhkafkaError):
            return kind(_with_reason(text.strip()))
    if is_too_late(shown):
        return EngineError(
            "The Spark query failed: a Python process of Spark's did not start within ten seconds. Start "
            "again when the machine is less busy, or give it more cores."
        )
    # Its first words say what happened; frames of Java are for the executors' logs.
    lines = [line for line in shown.splitlines() if not line.lstrip().startswith(("at ", "... "))]
    first = " ".join(" ".join(lines).split())[:_SHOWN_CHARACTERS_MAX].rstrip(". ")
    return EngineError(
        f"The Spark query failed: {first}. The records of its unfinished batch are handled again at the "
        "next start. The executors' logs have the whole error."
    )


def _with_reason(text: str) -> str:
    unset = _UNSET.search(text)
    if unset is None or not os.environ.get(unset[1]):
        return text
    return (
        f"{text} The environment of this program has {unset[1]}, but Spark's processes do not: set it "
        f"before the Spark session begins."
    )


def is_of_java(error: BaseException) -> bool:
    """Tell whether an error is of a call into Java, or of the way there."""
    return type(error).__module__.partition(".")[0] == "py4j"


def java_says(error: BaseException) -> str:
    """Return its first words, without Java's frames."""
    reported = getattr(error, "java_exception", None)
    try:
        text = str(error) if reported is None else str(reported.toString())
    except Exception:  # Java has ended meanwhile, and the error's own text would be Java's, too
        text = str(getattr(error, "errmsg", type(error).__name__))
    return " ".join(text.split())[:_JAVA_CHARACTERS_MAX].rstrip(".")
