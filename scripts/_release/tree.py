"""What the checkout says of the version to release, and why it would be refused."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass

from _environment import ROOT

# Stands in pyproject.toml and in CHANGELOG.md until there is a home, and a day.
NOT_YET = "not published yet"
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Tree:
    """The checkout: `heading` is CHANGELOG.md's first version with its day, `tags` are those of versions."""

    version: str
    heading: str
    home: str
    changed: tuple[str, ...]
    tags: frozenset[str]
    tags_here: frozenset[str]


def read() -> Tree:
    """Read the files and ask git."""
    init = (ROOT / "ehkafka" / "__init__.py").read_text()
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return Tree(
        version=re.findall(r'^__version__ = "(.*)"$', init, re.MULTILINE)[0],
        heading=headings[0],
        home=project["tool"]["ehkafka"]["home"],
        changed=tuple(line[3:] for line in git("status", "--porcelain").splitlines()),
        tags=frozenset(git("tag", "--list", "v*").split()),
        tags_here=frozenset(git("tag", "--points-at", "HEAD", "--list", "v*").split()),
    )


def refusals(tree: Tree, tag: str | None) -> list[str]:
    """Return a sentence for each reason not to build; `tag` is given where the result is to be published."""
    wanted = f"v{tree.version}"
    found = []
    if tree.changed:
        shown = ", ".join(tree.changed[:SHOWN_MAX])
        found.append(f"{len(tree.changed)} files differ from the commit ({shown}): commit or remove them.")
    if tree.heading.split()[0] != tree.version:
        found.append(
            f"CHANGELOG.md begins with {tree.heading!r}, and ehkafka.__version__ is {tree.version}: "
            "make them the same."
        )
    if wanted in tree.tags - tree.tags_here:
        found.append(f"The tag {wanted} names another commit: raise ehkafka.__version__.")
    found += [
        f"The tag {other} names this commit of version {tree.version}: remove the tag, or set the version."
        for other in sorted(tree.tags_here - {wanted})
    ]
    return found + ([] if tag is None else unpublishable(tree, tag))


def unpublishable(tree: Tree, tag: str) -> list[str]:
    """Return what a release that goes to a package index lacks."""
    found = []
    if tag != f"v{tree.version}" or tag not in tree.tags_here:
        found.append(f"The tag {tag} does not name this commit of version {tree.version}: tag the commit.")
    if NOT_YET in tree.heading:
        found.append(f"CHANGELOG.md says {NOT_YET!r}: write the day, as in '## {tree.version} (2026-12-31)'.")
    if not tree.home.startswith("https://"):
        found.append(
            f"[tool.ehkafka] of pyproject.toml says home = {tree.home!r}: write the project's address there, "
            "and in [project.urls]."
        )
    return found


def git(*words: str) -> str:
    """Return what git answers. Raises `subprocess.CalledProcessError` outside of a repository."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
