"""The public surface: what `import ehkafka` gives, and that nothing else slips in."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ehkafka

# What a user types in an app: one import, no hunt for modules. Anything rarer, and what is only read, lives
# in its room.
NAMES_MAX = 30


def test_all_is_exactly_what_the_root_shows() -> None:
    """`__all__` equals the public names that are no submodules; sorted, and few."""
    assert all(getattr(ehkafka, name) is not None for name in ehkafka.__all__)
    public = {
        name
        for name, value in vars(ehkafka).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(ehkafka.__all__)
    assert list(ehkafka.__all__) == sorted(ehkafka.__all__)
    assert len(ehkafka.__all__) <= NAMES_MAX


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    """The imports for type checkers and the table name the same; `dir` shows no more."""
    tree = ast.parse(Path(ehkafka.__file__).read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in branch.body if isinstance(node, ast.ImportFrom)]
    named = {alias.name: node.module for node in imports for alias in node.names}
    rooms = {name for name, module in named.items() if module == "ehkafka"}
    assert all(inspect.ismodule(getattr(ehkafka, room)) for room in rooms)
    assert {name: module for name, module in named.items() if name not in rooms} == ehkafka._MODULES
    assert dir(ehkafka) == ehkafka.__all__


@pytest.mark.parametrize(
    "code",
    [
        # A program that reads records, or takes the drop-in, has no app to load.
        (
            "import ehkafka; ehkafka.Record; assert 'ehkafka.endpoint' not in sys.modules; "
            "ehkafka.Consumer; assert 'ehkafka.app' not in sys.modules"
        ),
        # Spark starts many Python processes: each loads what it needs, and public rooms are there when asked.
        (
            "import ehkafka.errors; assert 'ehkafka.app' not in sys.modules; import ehkafka; "
            "assert ehkafka.records.Record is ehkafka.Record; from ehkafka import *; "
            "assert App.__module__ == 'ehkafka.app.app'"
        ),
        # Each part is there after a bare import; what is no part is an AttributeError.
        (
            "import ehkafka; "
            "assert all(getattr(ehkafka, part).__name__ == f'ehkafka.{part}' for part in ('app', 'run')); "
            "assert not any(hasattr(ehkafka, name) for name in ('nothing', '__wrapped__', 'lanes.order'))"
        ),
        # A part that cannot be loaded is there, so the error names the module that it lacks.
        (
            "import ehkafka; sys.modules['ehkafka.app.registration'] = None\n"
            "try: ehkafka.app\n"
            "except ModuleNotFoundError as error: assert error.name == 'ehkafka.app.registration'\n"
            "else: raise AssertionError"
        ),
    ],
)
def test_a_program_loads_the_parts_that_it_needs(code: str) -> None:
    """By name, in a fresh interpreter."""
    subprocess.run([sys.executable, "-c", f"import sys; {code}"], check=True)


def test_the_error_tree_is_drawn_as_it_is() -> None:
    """Every error class stands in the tree of its module's docstring, with its exit code."""
    drawn = dict(re.findall(r"─ (\w+Error) .*?exit (\d+)", ehkafka.errors.__doc__ or ""))
    classes = {
        name: cls
        for name, cls in vars(ehkafka.errors).items()
        if inspect.isclass(cls) and issubclass(cls, ehkafka.EhkafkaError) and cls is not ehkafka.EhkafkaError
    }
    assert {name: str(cls.exit_code) for name, cls in classes.items()} == drawn


def test_the_package_is_typed() -> None:
    """`py.typed` ships with the package."""
    assert (Path(ehkafka.__file__).parent / "py.typed").exists()
