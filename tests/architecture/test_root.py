"""The public surface: what `import ehkafka` gives, and that nothing else slips in."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

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


def test_each_name_loads_what_it_needs_alone() -> None:
    """A program that reads records, or takes the drop-in, has no app to load."""
    code = (
        "import sys, ehkafka; ehkafka.Record; assert 'ehkafka.endpoint' not in sys.modules; "
        "ehkafka.Consumer; assert 'ehkafka.app' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_of_the_package_does_not_load_the_whole() -> None:
    """Spark starts many Python processes: each loads what it needs, and public rooms are there when asked."""
    code = (
        "import sys, ehkafka.errors; assert 'ehkafka.app' not in sys.modules; import ehkafka; "
        "assert ehkafka.records.Record is ehkafka.Record; assert not hasattr(ehkafka, 'nothing'); "
        "from ehkafka import *; print(App.__module__, TopicPartition.__module__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["ehkafka.app.app", "ehkafka.records.message"]


def test_each_part_of_the_package_is_there_after_a_bare_import() -> None:
    """As when the package loaded all of them itself; what is no part is an AttributeError."""
    code = (
        "import ehkafka\n"
        "for part in ('lanes', 'workers', 'app', 'consumer', 'recovery', 'intake', 'run'):\n"
        "    assert getattr(ehkafka, part).__name__ == f'ehkafka.{part}'\n"
        "for name in ('nothing', '__wrapped__', 'lanes.order', 'no.thing'):\n"
        "    assert not hasattr(ehkafka, name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_that_lacks_a_module_says_which() -> None:
    """A part that cannot be loaded is there, so it is no AttributeError that is raised."""
    code = (
        "import sys, ehkafka; sys.modules['ehkafka.app.registration'] = None\n"
        "try: ehkafka.app\n"
        "except ModuleNotFoundError as error: print(error.name)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["ehkafka.app.registration"]


def test_every_public_name_is_documented() -> None:
    """Each exported class and function has a docstring, and so has each of its public methods."""
    for name in ehkafka.__all__:
        thing = getattr(ehkafka, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for attribute, value in vars(thing).items():
                if inspect.isfunction(value) and not attribute.startswith("_"):
                    assert inspect.getdoc(value), f"{name}.{attribute}"


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


def test_the_names_are_there_where_pytest_loads_the_package(tmp_path: Path) -> None:
    """Where ehkafka is installed, pytest loads it by its own loader, because it brings fixtures."""
    (tmp_path / "conftest.py").write_text('import pytest\n\npytest.register_assert_rewrite("ehkafka")\n')
    (tmp_path / "test_it.py").write_text("import ehkafka\n\n\ndef test_it():\n    assert ehkafka.App\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
