"""Every command of a page is one that there is: in blocks behind `$ `, and between backticks in sentences."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import typer

from ehkafka.cli.commands import cli
from tests.kit.pages import FILE_NAME, PAGES, ROOT, Block, blocks_of, inline_commands, shell_commands

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [block for page in PAGES for block in blocks_of(page) if block.not_run is None]
# Other programs that a page may name; nothing of them is ours to check.
OTHERS = {"pip", "python", "python3", "export", "source", "git", "cd", "ls", "docker", "kubectl"}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "console"], ids=str)
def test_the_commands_of_a_block_are_taken(block: Block) -> None:
    """`ehkafka` by its own parser, with all that it demands; scripts by the options that they have."""
    commands = shell_commands(block)
    assert commands, "a block of commands shows what to type behind `$ `; what is printed alone is `text`"
    for command in commands:
        words = shlex.split(command, comments=True)
        if words[0] == "ehkafka":
            parse(words[1:])
        elif words[0].startswith("scripts/"):
            check_script(words)
        else:
            assert words[0] in OTHERS, f"who checks {words[0]}?"
            shown = files_shown(block.page)
            files = [word for word in words[1:] if word.endswith(".py") and word not in shown]
            assert words[0] != "python" or [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_in_a_sentence_are_there(page: Path) -> None:
    """They may leave out what the sentence does not need; what they name exists."""
    for command in inline_commands(page):
        words = shlex.split(command.replace("<(", "").replace(")", ""), comments=True)
        if words[0] == "ehkafka":
            known_words(words[1:])
        elif len(words) > 1 or words[0].startswith("scripts/"):
            check_script(words)


def files_shown(page: Path) -> set[str]:
    """Return the names of the files that a page's blocks are."""
    return {file["name"] for block in blocks_of(page) if (file := FILE_NAME.match(block.text))}


def test_each_extra_that_a_page_names_exists() -> None:
    """`ehkafka[cli]`, or `.[cli]` in a checkout."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        for names in re.findall(r"(?:ehkafka|'\.)\[([a-z,]+)\]", page.read_text()):
            assert set(names.split(",")) <= set(extras), f"{page}: {names}"


def parse(words: list[str]) -> None:
    """Let the command's parser read the words; nothing runs. What it refuses is an error here, too."""
    command: Any = typer.main.get_command(cli)
    context = command.make_context("ehkafka", list(words))
    while hasattr(command, "commands"):
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, list(words), parent=context)


def known_words(words: list[str]) -> None:
    """Check that the commands and the options among the words exist."""
    command: Any = typer.main.get_command(cli)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {
        "--help",
        "-h",
    }
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert options <= known, f"{command.name} has no {options - known}"


def check_script(words: list[str]) -> None:
    """Check that the script is there and reads the options."""
    script = ROOT / words[0]
    assert script.is_file(), words[0]
    text = script.read_text()
    if script.name == "demo":
        text = (ROOT / "examples/demo/__main__.py").read_text()
    if script.name == "home_security":
        text = (ROOT / "examples/home_security/run.py").read_text()
    for other in re.findall(r"\b(_[a-z_]+_run|_live\.options|peers\.run)\b", text):
        text += (script.parent / f"{other.replace('.', '/')}.py").read_text()
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    # `scripts/simulate` makes options of names.
    there = {option for option in options if f'"{option}"' in text or f'"{option[2:]}": ' in text}
    assert {*options} - there <= {"--help"}
