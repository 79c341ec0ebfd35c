"""Where a member finds the app: a module, or the program's own file, and the app's name there.

Found in the supervisor by looking where the app stands; no option names it. Main thread, before any member.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.errors import ConfigurationError, EhkafkaError, describe
from ehkafka.run.signals import importing
from ehkafka.wording import ended
from ehkafka.wording.error_stack import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

MAIN = "__main__"
# How `multiprocessing` calls the program's main module where it is imported again.
MAIN_AGAIN = "__mp_main__"


class Reference(NamedTuple):
    """`name` in `module`; the module is `__main__` where the program's own file has the app."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


def reference_to(app: object) -> Reference:
    """Return where members find this app. Raises `ConfigurationError`."""
    found = [
        Reference(module, name)
        for module, content in list(sys.modules.items())
        if content is not None and module.partition(".")[0] != "ehkafka"
        for name, value in list(getattr(content, "__dict__", {}).items())
        if value is app
    ]
    # Who imports a module stands before it: the last one is nearest to where the app was made.
    elsewhere = [one for one in found if one.module not in {MAIN, MAIN_AGAIN}]
    if elsewhere:
        return elsewhere[-1]
    if not found:
        raise ConfigurationError(
            "members=: the app was made inside a function or class, so members cannot import it. Make the "
            "app at the top level of a module (app = ehkafka.App(…)), and call app.run(members=…) under "
            "`if __name__ == '__main__':`."
        )
    main = sys.modules[MAIN]
    if getattr(main, "__spec__", None) is None and getattr(main, "__file__", None) is None:
        raise ConfigurationError(
            "members=: the app is not in a file, so members cannot import it. Put the app into a module, "
            "and run that module: ehkafka run module:app --members 2."
        )
    return Reference(MAIN, found[0].name)


def imported(reference: Reference) -> Any:
    """Return the app in a member; its main module is there already. Raises `ConfigurationError`."""
    with explained(reference.module):
        module = importlib.import_module(reference.module)
    return _found(module, reference)


@contextmanager
def explained(what: str, *, by: str = "a member", more: str = "") -> Iterator[None]:
    """Say what an import raises as one `ConfigurationError`, and let no app be run by it.

    `by` is what imports, `more` a further sentence about an error that only the user's code explains.
    """
    try:
        with importing(what, by=by):
            yield
    except EhkafkaError as error:
        if place := place_of(error):
            error.args = (f"{str(error).removesuffix('.')} ({place}).",)
        raise
    except SystemExit as error:
        raise ConfigurationError(
            f"{what} ended the process while {by} imported it ({place_of(error)}). Put code that runs only "
            f"as a script under `if __name__ == '__main__':`."
        ) from error
    except Exception as error:
        text = ended(describe(error)).removesuffix(".")
        raise ConfigurationError(
            f"{by.capitalize()} cannot import {what}: {text} ({place_of(error)}).{more}"
        ) from error


def _found(module: ModuleType, reference: Reference) -> object:
    app = getattr(module, reference.name, None)
    if not callable(getattr(app, "run", None)):
        where = f"the program {module.__file__}" if reference.module == MAIN else f"module {reference.module}"
        raise ConfigurationError(
            f"A member found no app named {reference.name!r} when it imported {where}: make the app at the "
            "top level, not under `if __name__ == '__main__':` nor in a function."
        )
    return app
