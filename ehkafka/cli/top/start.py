"""Starts `ehkafka top`: reads the token, asks once, and only then takes the terminal."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Final

from ehkafka.cli.top.door import Door, UnansweredError
from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.settings.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = "EHKAFKA_HTTP_TOKEN"
TOKEN_CHARACTERS_MAX: Final = 1_000


def top(url: str, token_file: Path | None) -> None:
    """Show an app until `q`. Raises what is wrong before the terminal is taken."""
    if importlib.util.find_spec("textual") is None:
        raise MissingExtraError("ehkafka top needs textual. Run: pip install 'ehkafka[top]'")
    door = Door.at(url, read_token(token_file))
    answer = door.state()
    if answer.status in (401, 403):
        hint = (
            f"Give it with --token-file or {VARIABLE}."
            if door.token is None
            else "The token is not the app's."
        )
        raise ConfigurationError(f"{door.url} needs the token: {answer.text} {hint}")
    if not answer.is_ok or "snapshot" not in answer.body:
        raise UnansweredError(f"What answers at {door.url} shows no app: {answer.text}")
    if not sys.stdout.isatty():
        raise ConfigurationError("ehkafka top needs a terminal. For programs there is GET /snapshot.")
    from ehkafka.cli.top.screen import Top  # noqa: PLC0415 - an extra

    Top(door, answer.body).run()


def read_token(token_file: Path | None) -> Secret | None:
    """Return the token of a file, else of the variable, else None. Raises `ConfigurationError`."""
    if token_file is not None:
        try:
            with token_file.open(encoding="utf-8") as file:
                text, where = file.read(4 * TOKEN_CHARACTERS_MAX).strip(), str(token_file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigurationError(f"The token cannot be read from {token_file}: {reason}.") from None
    elif (given := os.environ.get(VARIABLE)) is not None:
        text, where = given.strip(), VARIABLE
    else:
        return None
    if not text or len(text) > TOKEN_CHARACTERS_MAX or not text.isascii() or not text.isprintable():
        raise ConfigurationError(
            f"{where} holds no token: one line of 1 to {TOKEN_CHARACTERS_MAX} letters, digits and signs."
        )
    return Secret(text)
