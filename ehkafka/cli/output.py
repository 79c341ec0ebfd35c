"""What a command writes to stdout: text, aligned columns and JSON.

What comes from the wire is hostile: no byte of it reaches a terminal unescaped, as text or as JSON. A reader
that has gone (`| head`) is no error, and no line reports it.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import typer
from rich.cells import cell_len
from rich.console import Console

from ehkafka.cli.exits import forget_stdout
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NONE = "–"
_GAP = "  "
# JSON leaves these as they are, but a terminal may obey them: DEL and the C1 control characters.
_LEFT_BY_JSON = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """End the block without a word when stdout's reader has gone."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()


class PipedConsole(Console):
    """Writes to stdout until its reader has gone. Then the command goes on, for its exit code."""

    def on_broken_pipe(self) -> None:
        """Go on in silence; rich's own would exit with 1, which says that something failed."""
        self.quiet = True
        forget_stdout()


def notice(text: str) -> None:
    """Write to stderr what is not a result."""
    typer.echo(f"ehkafka: {printable(text)}", err=True)


def put_text(text: str) -> bool:
    """Write lines in the encoding of stdout; return whether they may still be read."""
    # Names of blobs, owners and members are among them, of any characters.
    lines = "\n".join(printable(line) for line in text.split("\n"))
    return put_bytes(lines.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def put_json(value: object, *, on_one_line: bool = False) -> bool:
    """Write one value; return whether it may still be read."""
    return put_bytes(in_json(value, 0 if on_one_line else orjson.OPT_INDENT_2))


def put_bytes(line: bytes) -> bool:
    """Write a line; return whether it may still be read."""
    with quiet_pipe():
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
        return True
    return False


def in_json(value: object, option: int = 0) -> bytes:
    """Return JSON; bytes that are no UTF-8 become `{"base64": "…"}`. Nothing is cut."""
    dumped = orjson.dumps(plain(value), option=option | orjson.OPT_NAIVE_UTC)
    return dumped.decode().translate(_LEFT_BY_JSON).encode()


def plain(value: object) -> Any:
    """Return what JSON can say; text for all else."""
    if isinstance(value, bytes):
        text = _decoded(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()  # a lone surrogate is not UTF-8
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    try:
        orjson.dumps(value)
    except TypeError:  # which orjson's own error is
        return str(value)
    return value


def shown(value: object, limit: int | None) -> str:
    """Return a value in printable characters, cut after `limit` of them; bytes that are no text as base64."""
    if value is None:
        return "-"
    text = readable(value) if isinstance(value, bytes) else str(value)
    if limit is None or len(text) <= limit:
        return printable(text)
    size = len(value) if isinstance(value, bytes) else len(text.encode(errors="replace"))
    return f"{printable(text[:limit])}… ({size} bytes)"


def cut(text: str, characters_max: int) -> str:
    """Return a text that is no longer than this."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def columns(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return the rows below their headers; numbers to the right, None as a dash.

    A character may be two columns of a terminal wide, or none.
    """
    texts = [[NONE if value is None else printable(str(value)) for value in row] for row in rows]
    widths = [
        max([len(header), *(cell_len(row[number]) for row in texts)]) for number, header in enumerate(headers)
    ]
    rights = [
        bool(rows) and all(value is None or isinstance(value, int) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(headers)
    return "\n".join(_line(row, widths, rights) for row in [list(headers), *texts])


def _line(texts: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    cells = []
    for text, width, right in zip(texts, widths, rights, strict=True):
        blank = " " * (width - cell_len(text))
        cells.append(f"{blank}{text}" if right else f"{text}{blank}")
    return _GAP.join(cells).rstrip()


def readable(data: bytes) -> str:
    """Return them as text, or in base64 where they are none."""
    text = _decoded(data)
    return f"base64:{base64.b64encode(data).decode()}" if text is None else text


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
