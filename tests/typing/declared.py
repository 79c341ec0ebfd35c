"""What is written out of the declarations of options: keyword types for editors, and tables of the docs.

`python -m tests.typing.declared` writes them; `test_keywords` compares.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import MISSING, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.consumer.program_settings import OwnOptions
from ehkafka.handlers.batch import BatchSpec
from ehkafka.handlers.spec import HandlerSpec
from ehkafka.run.spark_options import SparkOptions
from ehkafka.settings import PROPERTIES, Settings, options_of
from ehkafka.settings.option import options_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.settings.option import Option

ROOT = Path(__file__).parents[2]
KEYWORDS = ROOT / "ehkafka" / "app" / "keywords.py"
DROP_INS = ROOT / "ehkafka" / "consumer" / "keywords.py"
PAGE = ROOT / "docs" / "reference" / "settings.md"
WIDTH = 110
# `App` names them itself.
OF_APP = ("group", "start")
# Those that differ with what a handler takes.
OF_TAKEN = ("order_by", "value", "decoder")


def keywords() -> str:
    """Return the module of keyword types, with what is declared now."""
    settings, batches = options_of(Settings), options_for(BatchSpec, "batches")
    records = {one.name: one for one in options_for(HandlerSpec, "records") if one.name != "raw"}
    taken = [records[name] for name in OF_TAKEN]
    of_messages = replace(records["order_by"], given="Callable[[KafkaMessage], Hashable]")
    of_all = [one for one in batches if one == records.get(one.name) and one not in taken]
    classes = {
        "AppSettings": [one for one in settings if one.name not in OF_APP],
        "ChangedSettings": [one for one in settings if one.name in OF_APP],
        "OfHandlers": of_all,
        "OfRecords": [one for one in records.values() if one not in (*of_all, *taken)],
        "OfPayloads": taken,
        "HandlerOptions": [],
        "RawHandlerOptions": [of_messages],
        "BatchHandlerOptions": [one for one in batches if one not in (*of_all, *taken)],
        "SparkKeywords": list(options_of(SparkOptions)),
    }
    return _with_classes(KEYWORDS, classes)


def drop_ins() -> str:
    """Return the module of the drop-ins' keyword types, with what is declared now."""
    return _with_classes(DROP_INS, {"OwnKeywords": options_of(OwnOptions)})


def _with_classes(module: Path, classes: dict[str, Iterable[Option]]) -> str:
    text = module.read_text()
    for name, options in classes.items():
        found = re.search(rf'^class {name}\(.*?\):\n    """.*?"""\n', text, re.MULTILINE | re.DOTALL)
        assert found, name
        after = text.find("\n\n\nclass ", found.end() - 1)
        rest = "" if after < 0 else text[after + 1 :]
        text = text[: found.end()] + "".join(map(_keyword, options)) + rest
    return text


def page() -> str:
    """Return the page of settings, with what is declared now."""
    text = PAGE.read_text()
    head = "| option | of | default | what it decides |\n|---|---|---|---|"
    text = _with_table(text, "One handler", [head, *_of_handlers()])
    for section, rows in list(_sections()):
        text = _with_table(text, section, ["| setting | default | what it decides |\n|---|---|---|", *rows])
    return text


def _with_table(text: str, section: str, rows: list[str]) -> str:
    start = text.index(rows[0], text.index(f"\n## {section}\n"))
    return text[:start] + "\n".join(rows) + text[text.index("\n\n", start) :]


def _of_handlers() -> Iterator[str]:
    for one in options_of(BatchSpec):
        if not one.outside:
            continue
        of_records = next((other for other in options_of(HandlerSpec) if other.name == one.name), None)
        default = f"`{one.default}`" if one.default is not None else "–"
        if of_records is not None and of_records != one:
            default = f"`{of_records.default}`, batches {default}"
        kinds = one.only or ("all" if of_records else "batches")
        yield f"| `{one.name}` | {kinds} | {default} | {(of_records or one).meaning} |"


def _keyword(one: Option) -> str:
    words = f"{one.facts[0].upper()}{one.facts[1:]}: {one.meaning}."
    lines = textwrap.wrap(
        f'"""{words}',
        WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if len(lines) > 1 or len(lines[0]) + 3 > WIDTH:
        lines.append("    ")
    return f"\n    {one.name}: {one.given or one.type}\n" + "\n".join(lines) + '"""\n'


def _sections() -> Iterator[tuple[str, list[str]]]:
    rows: list[str] = []
    for one in options_of(Settings):
        if one.name in PROPERTIES:  # the page has a section of a file for them
            continue
        if one.section:
            rows = []
            yield one.section, rows
        rows.append(f"| `{one.name}` | {_default(one)} | {one.meaning} |")


def _default(one: Option) -> str:
    if one.default is MISSING:
        return "required"
    if one.default is None:
        return "–"
    values: Iterable[object] = (one.default, *(word for word in one.one_of if word != one.default))
    shown = (f"{value:.0f}" if isinstance(value, float) else json.dumps(value) for value in values)
    return ", ".join(f"`{value}`" for value in shown)


if __name__ == "__main__":
    KEYWORDS.write_text(keywords())
    DROP_INS.write_text(drop_ins())
    PAGE.write_text(page())
