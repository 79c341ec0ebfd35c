"""Finds the `App` that `ehkafka run` is to run.

Imports the user's module, so any code of theirs may run here, on the main thread, before anything of the
engine starts. Whatever goes wrong is one `ConfigurationError` that names the file and line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka import App
from ehkafka.errors import ConfigurationError
from ehkafka.members.reference import explained
from ehkafka.wording.error_stack import place_of

if TYPE_CHECKING:
    from types import ModuleType

DEFAULT_NAME = "app"
FORMS = "Write it as module:app, package.module:app or path/to/file.py:app."


def load_app(path: str) -> App:
    """Return the app at `module:name` or `file.py:name`; without `:name` the one called `app`.

    The current directory comes first on `sys.path`, for a file its own folder too, as for
    `python file.py`. Raises `ConfigurationError`.
    """
    where, _, name = path.partition(":")
    if not where or (where.startswith(".") and not _is_file_path(where)):
        raise ConfigurationError(f"{path!r} names no module. {FORMS}")
    _search_first_in(Path.cwd())
    module = _from_file(Path(where)) if _is_file_path(where) else _import(where)
    return _app_in(module, name or DEFAULT_NAME)


def _is_file_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where


def _search_first_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise ConfigurationError(f"There is no file {file} in {Path.cwd()}. {FORMS}")
    if not file.stem.isidentifier():
        raise ConfigurationError(
            f"{file} cannot be imported: {file.stem!r} is not a module name. Rename the file."
        )
    _search_first_in(file.resolve().parent)
    # By its name and not by its path alone: what is defined there can then be found again by others.
    module = _import(file.stem)
    found = getattr(module, "__file__", None)
    if found is None or Path(found).resolve() != file.resolve():
        raise ConfigurationError(
            f"{file} cannot be imported, because another module is also named {file.stem!r} "
            f"({found or 'built in'}). Rename the file, or name it as package.module:app."
        )
    return module


def _import(name: str) -> ModuleType:
    with explained(name, by="the command", more=" Run again with --debug for the traceback."):
        try:
            return importlib.import_module(name)
        except SyntaxError as error:
            raise ConfigurationError(
                f"{error.filename}, line {error.lineno}: {error.msg}. Correct this line; nothing was started."
            ) from error
        except ModuleNotFoundError as error:
            raise ConfigurationError(_not_found(name, error)) from error


def _not_found(name: str, error: ModuleNotFoundError) -> str:
    missing = error.name or str(error)
    if name == missing or name.startswith(f"{missing}."):
        return f"There is no module {missing!r}, neither in {Path.cwd()} nor installed. {FORMS}"
    return (
        f"{name} imports {missing!r}, which is not installed ({place_of(error)}). Install {missing}, or "
        f"correct the import."
    )


def _app_in(module: ModuleType, name: str) -> App:
    apps = [other for other, value in vars(module).items() if isinstance(value, App)]
    none = "the module has no ehkafka.App at its top level"
    hint = f"the module's apps are {', '.join(apps)}" if apps else none
    if not hasattr(module, name):
        raise ConfigurationError(f"{module.__name__} has no {name!r}: {hint}.")
    found = getattr(module, name)
    if not isinstance(found, App):
        call = "a function; in the module, assign the function's result to a name"
        kind = call if callable(found) else f"a {type(found).__name__}"
        raise ConfigurationError(f"{module.__name__}:{name} is not an ehkafka.App but {kind}: {hint}.")
    return found
