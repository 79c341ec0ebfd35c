"""What can be compared: the sides, read from the TOML files next to their programs.

A side is one program with an environment of its own. Its modes are the ways in which that library can do the
work; each mode is one line of a table. `sides/protocol.py` has the protocol of the programs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIDES = Path(__file__).with_name("sides")
WORKS = (
    "noop",
    "json",
    "sleep",
    "hot",
    "poison",
    "latency",
    "batch",
    "typed",
    "output",
    "exactly_once",
)
ORDERS = ("key", "partition", "none")
KINDS = ("threads", "tasks", "processes")


class CatalogueError(Exception):
    """A TOML file does not have what it must have; the message names the file and the key."""


@dataclass(frozen=True)
class Mode:
    """One way of a library to do some works: a line in their tables."""

    title: str
    works: tuple[str, ...]
    # What stays in order while these works run: the records of a key, of a partition, or nothing.
    order: str
    kind: str = "threads"
    # What the side's program calls it.
    mode: str = ""
    # Instead of the plan's number of workers, for a mode that has another best one.
    workers: int | None = None
    # At least so long a warm-up: a JVM compiles what runs often, and that takes seconds.
    warm_s: float = 0.0
    note: str = ""
    # Whether it is a program around a client, written for this comparison, rather than a library's own way.
    by_hand: bool = False
    # Only in these workloads, where it is another mode once more in the others.
    workloads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("works", "workloads"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check(set(self.works) <= set(WORKS), f"works are {', '.join(WORKS)}; found {self.works}")
        _check(self.order in ORDERS, f"order is one of {', '.join(ORDERS)}; found {self.order!r}")
        _check(self.kind in KINDS, f"kind is one of {', '.join(KINDS)}; found {self.kind!r}")


@dataclass(frozen=True)
class Side:
    """One library, or one way to do without any."""

    name: str
    title: str
    # Empty where it is this checkout or written by hand.
    version: str
    site: str
    modes: tuple[Mode, ...]
    # Pinned packages of its environment.
    packages: tuple[str, ...] = ()
    language: str = "python"
    # Whether it is this checkout's package.
    checkout: bool = False
    # By work: why it cannot do it as asked. Its nearest mode may run all the same, and is marked.
    cannot: dict[str, str] = field(default_factory=dict)
    # Of the outputs that it counts: so much must be in the topic by then. Less than all of them only for a
    # library that cannot tell when one is acknowledged, or committed.
    sent_share_min: float = 1.0
    # The whole file, for an environment that needs more.
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def program(self) -> Path:
        """What is run."""
        return SIDES / f"{self.name}.{'java' if self.language == 'java' else 'py'}"

    def modes_for(self, work: str) -> tuple[Mode, ...]:
        """Return the modes that do a work."""
        return tuple(mode for mode in self.modes if work in mode.works)


def all_sides(folder: Path = SIDES) -> list[Side]:
    """Return all sides: ehkafka first, then by hand, then the rivals by name."""
    first = ("ours", "bare", "hand")
    found = [read_side(path) for path in folder.glob("*.toml")]
    return sorted(found, key=lambda one: (_place(first, one.name), one.name))


def read_side(path: Path) -> Side:
    """Read one file."""
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        modes = tuple(Mode(**one) for one in given["modes"])
        side = Side(
            path.stem,
            given["title"],
            given.get("version", ""),
            given.get("site", ""),
            modes,
            packages=tuple(given.get("packages", ())),
            language=given.get("language", "python"),
            checkout=given.get("checkout", False),
            cannot=given.get("cannot", {}),
            sent_share_min=given.get("sent_share_min", 1.0),
            settings=given,
        )
        _check(set(side.cannot) <= set(WORKS), f"[cannot] has works; found {', '.join(side.cannot)}")
    except KeyError as missing:
        raise CatalogueError(f"{path.name}: {missing} is missing.") from missing
    except (TypeError, CatalogueError) as wrong:
        raise CatalogueError(f"{path.name}: {wrong}.") from wrong
    return side


def _place(first: tuple[str, ...], name: str) -> int:
    return first.index(name) if name in first else len(first)


def _check(is_right: bool, sentence: str) -> None:
    if not is_right:
        raise CatalogueError(sentence)
