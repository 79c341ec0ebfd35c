"""Prepares a worker process: its parent's import path and main module, and the user's code.

The user's functions go by name: the child imports them. Whatever cannot go is refused here, before anything
is started, with its name and what to do. Called in the thread that starts the app.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, describe
from ehkafka.workers.processes import child as process_child
from ehkafka.workers.processes.logs import is_set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def boot_bytes(
    call: object,
    *,
    parts: Mapping[str, object],
    set_up: Callable[[], object] | None,
    tear_down: Callable[[], object] | None,
) -> bytes:
    """Return what the child's boot reads. `parts` is what `call` is made of, by what each is to the user.

    Raises `ConfigurationError`.
    """
    if process_child.importing_main:
        raise ConfigurationError(
            "The app was started while a worker process imported the program's main module again. Guard the "
            'start: `if __name__ == "__main__": app.run()`.'
        )
    for what, thing in {**parts, "on_worker_start": set_up, "on_worker_stop": tear_down}.items():
        if thing is not None:
            must_travel(thing, what)
    # By itself: it can be read once the main module is there.
    code = pickle.dumps((call, set_up, tear_down))
    return pickle.dumps({"main": main_module(), "logs": is_set_up(), "code": code})


def must_travel(thing: object, what: str) -> None:
    """Refuse what a worker process could not import. Raises `ConfigurationError`."""
    name = getattr(thing, "__qualname__", None) or type(thing).__qualname__
    try:
        pickle.dumps(thing)
    except Exception as error:
        raise ConfigurationError(
            f"{what}: {name!r} cannot be pickled for processes ({describe(error)}). Processes import it by "
            f"name: make it a function at the top level of a module (no lambda, no function inside another "
            f"function), or use threads: workers=16."
        ) from error
    if getattr(thing, "__module__", None) == "__main__" and not _main_name():
        raise ConfigurationError(
            f"{what}: {name!r} is not in a file, so a worker process cannot import it. Put it into a "
            f"module, or use threads: workers=16."
        )


def main_module(name: str = "ehkafka-worker") -> dict[str, Any]:
    """Return what `multiprocessing.spawn.prepare` needs to make the child's main module like ours."""
    here = str(Path.cwd())
    # Not what `get_preparation_data` gives: that settles the program's start method and takes a secret along.
    return {
        "name": name,
        "sys_path": [entry or here for entry in sys.path],
        "sys_argv": sys.argv,
        "dir": here,
        **_main_name(),
    }


def _main_name() -> dict[str, str]:
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    return {} if path is None else {"init_main_from_path": os.path.normpath(Path(path).absolute())}
