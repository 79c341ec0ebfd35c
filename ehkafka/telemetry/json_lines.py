"""Log records as lines of JSON: one object each, for programs that collect logs.

A `logging.Formatter` for any handler. What an event says of itself is among the fields, so nothing has to be
read out of the sentence. Called on whichever thread logs; never raises for what a record holds.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

# What every record has; the rest was given as `extra`.
_OF_ALL: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}
# What a line begins with: a reader of several programs' lines knows it by that.
BEGIN: Final = '{"time": "'


class JsonLines(logging.Formatter):
    """Makes one line of JSON of a record: time, level, logger, message, then what else it has.

    Of an event the fields are its own, with `event` as its kind, and the message is its sentence; what the
    text shows below that is in the fields. An error is `exception`, with type, text and stack. `member` is
    the number of the process under a supervisor.
    """

    def __init__(self, member: int | None = None) -> None:
        super().__init__()
        self._member = member

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if self._member is not None:
            line["member"] = self._member
        for name, value in vars(record).items():
            if name not in _OF_ALL:
                line[f"{name}_" if name in line else name] = value
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["exception"] = {
                "type": type(error).__qualname__,
                "text": _text(error),
                "stack": self.formatException(record.exc_info),
            }
        if record.stack_info:
            line["stack_info"] = record.stack_info
        return _dumped(line)


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception as error:  # arguments that do not fit: the line is worth more than their order
        return f"{record.msg} {record.args!r} ({type(error).__name__})"
    return text.partition("\n")[0] if "event" in vars(record) else text


def _dumped(line: dict[str, Any]) -> str:
    # In ASCII: no terminal obeys it, and no encoding of a stream makes it fail.
    try:
        return json.dumps(line, default=_text, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # such as a ring, a number that JSON lacks, odd keys
        plain = {
            name: value if isinstance(value, str | int) else _text(value) for name, value in line.items()
        }
        return json.dumps(plain)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__}, whose text could not be made: {type(error).__name__})"
