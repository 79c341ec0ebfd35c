"""The public surface: what `import ehkafka` gives, and that nothing else slips in."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import ehkafka

# What a user types in an app: one import, no hunt for modules. Anything rarer lives in its room.
NAMES_MAX = 44


def test_all_is_exactly_what_the_facade_shows() -> None:
    """`__all__` equals the public names that are no submodules; sorted, and few."""
    public = {
        name
        for name, value in vars(ehkafka).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public | ehkafka._LAZY == set(ehkafka.__all__)
    assert list(ehkafka.__all__) == sorted(ehkafka.__all__)
    assert len(ehkafka.__all__) <= NAMES_MAX


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
