"""What Java says when a call into Spark fails: one line of it. On the driver; imports no PySpark."""

from __future__ import annotations

_CHARACTERS_MAX = 200


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
    return " ".join(text.split())[:_CHARACTERS_MAX].rstrip(".")
