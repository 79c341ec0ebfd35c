"""`ehkafka produce`: writes records that are typed, piped in, or lines of JSON. On the main thread."""

from __future__ import annotations

import base64
import codecs
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from ehkafka.checks.topic_writer import TopicWriter
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import INTERRUPTED, ended_by_signals, interrupt
from ehkafka.cli.options import PARTITION_MAX, OfEndpoint, Topic
from ehkafka.cli.output import columns, notice, put_json, put_text
from ehkafka.cli.progress import progress_of
from ehkafka.cli.target import target_of
from ehkafka.errors import ConfigurationError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    Pairs = list[tuple[str, bytes | None]]
    KeyValueHeaders = tuple[bytes | None, bytes | None, Pairs]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""No service takes a record of this size; input without an end of line must not fill the memory."""
FIELDS: Final = frozenset({"key", "value", "headers"})
# What an export's lines have, too: where a record was is not where it goes.
PASSED_OVER: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
HEADERS: Final = ("PARTITION", "RECORDS", "FIRST OFFSET", "LAST OFFSET")

cli = CommandLine()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineForm:
    """How a line becomes a record."""

    key: Annotated[str | None, typer.Option(help="The key of every record. Default: no key.")] = None
    delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", metavar="TEXT", help="The text between key and value in each line."),
    ] = None
    ndjson: Annotated[
        bool,
        typer.Option("--ndjson", help="Each line is a JSON object with the fields value, key and headers."),
    ] = False
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every record; may be given several times."),
    ] = None

    def headers(self) -> Pairs:
        """Return the headers of all records; refuses options that exclude each other."""
        if sum((self.key is not None, self.delimiter is not None, self.ndjson)) > 1:
            raise ConfigurationError(
                "--key, --key-delimiter and --ndjson each decide the key of a record: give only one of them."
            )
        pairs = [one.partition("=") for one in self.header or ()]
        if wrong := [
            one for one, (name, sign, _) in zip(self.header or (), pairs, strict=True) if not (sign and name)
        ]:
            raise ConfigurationError(f"--header {wrong[0]!r} is not NAME=VALUE: add the missing part.")
        return [(name, value.encode()) for name, _, value in pairs]

    def record(self, line: bytes) -> KeyValueHeaders:
        """Return key, value and headers of a line. Raises `ValueError`."""
        if self.ndjson:
            return from_json(line)
        if self.delimiter is None:
            return None if self.key is None else os.fsencode(self.key), line, []
        key, found, value = line.partition(self.delimiter.encode())
        if not found:
            raise ValueError(f"it has no {self.delimiter!r} between key and value")
        return key, value, []


@cli.command("produce")
def produce(
    topic: Topic,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VALUE]...", help="The values of the records. Default: each line of stdin is a value."
        ),
    ] = None,
    *,
    form: LineForm,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0, max=PARTITION_MAX, help="The partition of all records. Default: the key decides."
        ),
    ] = None,
    of: OfEndpoint,
) -> int:
    r"""Write records to a topic, from arguments, lines of stdin, or lines of JSON.

    The command stops with code 0 when all in-sync replicas have every record (acks=all), and shows the
    offsets. Records of a key stay in order. If the broker refuses a record, the command stops with code 3.
    If a line is not a record, it stops with code 2, after writing the lines before it.

    With --ndjson each line is {"key": "c-7", "value": …, "headers": {"name": "text"}}, or a line of an
    export.
    Text is written as UTF-8, {"base64": "…"} as its bytes, null as null, and any other value as JSON.

    \b
    Examples:
      ehkafka produce orders '{"id": 1}' '{"id": 2}' --key c-7 --endpoint localhost:9092
      ehkafka produce orders --ndjson < orders.ndjson       records as JSON objects, one a line
      ehkafka produce orders --key-delimiter : < lines      each line is key:value

    """
    if values is None and sys.stdin.isatty():
        raise ConfigurationError(
            "The command has no records to write: give values as arguments, or redirect a file into stdin"
            " (< FILE)."
        )
    lines = stdin_lines() if values is None else map(os.fsencode, values)
    place = "Line {} of stdin" if values is None else "Value {}"
    writer = TopicWriter(target_of(topic, of), topic, timeout_s=of.timeout_s)
    code = INTERRUPTED
    try:
        with ended_by_signals(interrupt):
            _write(writer, lines, form, partition, place)
        code = 0
    except KeyboardInterrupt:
        notice("interrupted: the broker has not acknowledged the records after those reported here.")
    finally:
        if writer.written or code == 0:
            _report(topic, writer, as_json=of.as_json)
    return code


def stdin_lines() -> Iterable[bytes]:
    """Yield the lines of stdin without their ends. Raises `ConfigurationError` for one without an end."""
    number = 1
    while line := sys.stdin.buffer.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise ConfigurationError(
                f"Line {number} of stdin is longer than {LINE_BYTES_MAX} bytes, the most that a record can "
                "have: end each record with a line feed."
            )
        yield line.removesuffix(b"\n")
        number += 1


def _write(
    writer: TopicWriter, lines: Iterable[bytes], form: LineForm, partition: int | None, place: str
) -> None:
    own = form.headers()
    with writer, progress_of("Writing", None, "records") as report:
        for number, line in enumerate(lines, 1):
            if form.ndjson and not line.strip():
                continue
            try:
                key, value, headers = form.record(line)
                writer.write(value, partition=partition, key=key, headers=[*own, *headers])
            except (TypeError, ValueError) as error:
                where = place.format(number)
                raise ConfigurationError(f"{where} cannot be written: {error}.") from None
            report(number)
        writer.flush()


def from_json(line: bytes) -> KeyValueHeaders:
    """Return key, value and headers of a JSON object. Raises `ValueError`."""
    found = _parsed(line)
    if not isinstance(found, dict) or "value" not in found:
        raise ValueError('it is not a JSON object with the field "value"')
    if unknown := found.keys() - FIELDS - PASSED_OVER:
        raise ValueError(f"it has the unknown field {min(unknown)!r}: use key, value and headers")
    headers = found.get("headers") or {}
    try:
        pairs = headers.items() if isinstance(headers, dict) else [(h["key"], h["value"]) for h in headers]
    except (LookupError, TypeError):
        raise ValueError('give headers as {"name": "text"}, or as [{"key": …, "value": …}]') from None
    return (
        _data("key", found.get("key")),
        _data("value", found["value"]),
        [(name, _data(f"header {name!r}", one)) for name, one in pairs],
    )


def _parsed(line: bytes) -> Any:
    """Return what a line of JSON contains. Raises `ValueError` that names the fault and its place."""
    if line.startswith(codecs.BOM_UTF8):
        raise ValueError("it begins with a byte order mark (BOM): save the file as UTF-8 without a BOM")
    try:
        line.decode()
        return orjson.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"its byte {error.start + 1} is not UTF-8: save the file as UTF-8") from None
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at character {error.pos + 1})") from None


def _data(field: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError):
            raise ValueError(f"{field} is not valid base64: encode its bytes again, with padding") from None
    return orjson.dumps(value)


def _report(topic: str, writer: TopicWriter, *, as_json: bool) -> None:
    """Tell what the broker has acknowledged."""
    written = dict(sorted(writer.written.items()))
    records = sum(one.records for one in written.values())
    if as_json:
        partitions = [{"partition": number, **asdict(one)} for number, one in written.items()]
        put_json({"topic": topic, "records": records, "partitions": partitions}, on_one_line=True)
        return
    put_text(f"{counted(records, 'record')} written to {topic}")
    if written:
        rows = [(number, *asdict(one).values()) for number, one in written.items()]
        put_text(columns(HEADERS, rows))
