"""How the supervisor's program logs, for members that have not set up logging themselves.

What the program set up under `if __name__ == "__main__"`, or the command did, is not there in a process that
was started afresh: what its handlers log at INFO would vanish.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.telemetry.json_lines import JsonLines
from ehkafka.workers.processes.logs import is_set_up

if TYPE_CHECKING:
    from collections.abc import Mapping

# The command's handler bears this name: it sets logging up before it imports the app, and so do its members.
LOGS_FIRST: Final = "ehkafka-command"
LINES: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Levels by logger, the root's under no name; `is_first`: set up before the program was imported."""

    levels: Mapping[str, int]
    is_first: bool
    is_json: bool = False

    def set_up(self, number: int) -> None:
        """Log to standard error as here, in member `number`."""
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines(number) if self.is_json else logging.Formatter(LINES))
        logging.basicConfig(level=self.levels[""], handlers=[handler])
        for name, level in self.levels.items():
            if name:
                logging.getLogger(name).setLevel(level)


def logs_here() -> Logs | None:
    """Return how this process logs; None where logging leads nowhere."""
    if not is_set_up():
        return None
    root = logging.getLogger()
    known = list(logging.Logger.manager.loggerDict.items())
    levels = {name: one.level for name, one in known if isinstance(one, logging.Logger) and one.level}
    first = any(handler.get_name() == LOGS_FIRST for handler in root.handlers)
    return Logs(levels={"": root.level, **levels}, is_first=first, is_json=writes_json())


def writes_json() -> bool:
    """Tell whether the root logger writes lines of JSON, as `JsonLines` makes them."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)
