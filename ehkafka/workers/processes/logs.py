"""Whether this process's logging leads anywhere: asked in the parent and in each worker process.

A worker process is started afresh, so what the program set up under `if __name__ == "__main__"`, or the
command line did, is not there: what its handlers log at INFO vanishes.
"""

from __future__ import annotations

import logging


def is_set_up() -> bool:
    """Tell whether the root logger has a handler of any kind, or another one a handler that writes."""
    if logging.getLogger().handlers:
        return True
    known = list(logging.Logger.manager.loggerDict.values())
    return any(
        not isinstance(handler, logging.NullHandler)  # which libraries put there to be silent
        for logger in known
        if isinstance(logger, logging.Logger)
        for handler in logger.handlers
    )
