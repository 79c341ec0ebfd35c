"""ehkafka: consume Azure Event Hubs and Apache Kafka with strict order per key and high concurrency.

How a record flows: the poll thread takes batches from the broker (`intake`) and puts each record into the
inbox of a worker, behind the others of its key (`lanes`), the worker calls the handler (`workers`), a raise
goes to the `Failures` (`recovery`), and the committer sends the offset below which everything has a result
(`progress`). `App` joins these; `App.snapshot()`, `App.health()` and the event catalogue (`events`) show
them. `Endpoint` says where the broker is. The names that an app writes stand in `facade`; what is only read
has its room: `ehkafka.errors`, `.events`, `.telemetry`.

Threads: `ehkafka-poll` alone owns the `Consumer` and never calls a handler; workers own nothing shared;
`ehkafka-hooks` runs partition hooks, `ehkafka-telemetry` logs and calls event hooks.

What always holds: a committed offset never passes a received record without an outcome; two records of
one key never overlap or swap within a process; a slow or failing key delays only itself until the
backlog's limit; nothing is dropped silently. DESIGN.md has the reasons.
"""

import functools
import importlib
import importlib.util
import types
import typing

__version__ = "0.1.0.dev0"

if typing.TYPE_CHECKING:
    from ehkafka.facade import *  # noqa: F403 - each is loaded when it is asked for
else:

    def __getattr__(name: str) -> typing.Any:
        """Load the part of the package that is called so, or a name's home.

        Not before it is asked for: many processes need little of the package, such as those that read for
        Spark.
        """
        part = f"{__name__}.{name}"
        # No part begins with an underscore, and what inspects modules asks for many names that do.
        if name.isidentifier() and not name.startswith("_"):
            try:
                return importlib.import_module(part)
            except ModuleNotFoundError as error:
                if error.name != part:  # something that the part needs
                    raise
            if name in _homes():
                value = globals()[name] = getattr(importlib.import_module(_homes()[name]), name)
                return value
        if name == "__all__":  # `from ehkafka import *`
            return sorted(name for name, home in _homes().items() if home != __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})


@functools.cache
def _homes() -> dict[str, str]:
    """Return the module of each name in `facade`. Its import statements run here, and import nothing."""
    homes: dict[str, str] = {}

    def note(module: str, _globals: object, _locals: object, names: tuple[str, ...], _level: int) -> object:
        homes.update(dict.fromkeys(names, module))
        return types.SimpleNamespace(**dict.fromkeys(names))

    facade = f"{__name__}.facade"
    spec = importlib.util.find_spec(facade)
    get_code = getattr(spec and spec.loader, "get_code", None)
    if get_code is not None and (code := get_code(facade)):
        exec(code, {"__builtins__": {"__import__": note}})  # noqa: S102 - a file of ours
    if (
        not homes
    ):  # pytest's loader, for packages that bring fixtures, gives no code; a compiler's may be empty
        shown = vars(importlib.import_module(facade)).items()
        homes = {name: __name__ if isinstance(value, types.ModuleType) else facade for name, value in shown}
    return {name: home for name, home in homes.items() if not name.startswith("_")}
