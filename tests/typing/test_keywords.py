"""What type checkers are shown of settings and options is what the program takes, with the same words."""

from __future__ import annotations

import ast
import inspect
import itertools
import logging
import re
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import confluent_kafka.aio
import pytest

import ehkafka
from ehkafka.aio import AIOConsumer
from ehkafka.aio.calls import Calls
from ehkafka.consumer import keywords as of_consumers
from tests.typing import declared

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LINE = re.compile(r"- `(?P<name>\w+)` \((?P<facts>.*?(?:`.*?`)?)\): (?P<text>.*)", re.DOTALL)


def shown(module: ModuleType, name: str) -> dict[str, tuple[str, str]]:
    """Return the type and the words of each key of a `TypedDict`, those of its bases included."""
    classes = {
        node.name: node for node in ast.parse(inspect.getsource(module)).body if hasattr(node, "bases")
    }
    bases = [base.id for base in classes[name].bases if base.id in classes]
    keys = {key: value for base in bases for key, value in shown(module, base).items()}
    body = classes[name].body
    for field, words in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign):
            text = ast.literal_eval(words.value)
            keys[field.target.id] = (ast.unparse(field.annotation), " ".join(text.split()))
    return keys


def described(thing: Callable[..., Any], types: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the same of a docstring with a line for each option, and of its annotations."""
    parts = re.split(r"\n(?=- )|\n\n", inspect.getdoc(thing) or "")
    lines = {line["name"]: line for part in parts if (line := LINE.fullmatch(part))}
    words = {
        name: " ".join(f"{line['facts'][0].upper()}{line['facts'][1:]}: {line['text']}".split())
        for name, line in lines.items()
    }
    return {name: (kind, words[name]) for name, kind in types.items()}


def by_name(function: Callable[..., Any]) -> dict[str, str]:
    """Return the types of what a function takes by name only."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.annotation for one in parameters if one.kind is one.KEYWORD_ONLY}


def test_what_is_written_out_of_the_declarations_is_up_to_date() -> None:
    """The keyword types and the page's tables: `python -m tests.typing.declared` writes them."""
    assert declared.KEYWORDS.read_text() == declared.keywords()
    assert declared.PAGE.read_text() == declared.page()


def test_the_drop_in_s_own_arguments() -> None:
    """`DeserializingConsumer` takes what `Consumer` takes; `AIOConsumer` takes what is ours."""
    own = shown(of_consumers, "OwnOptions")
    assert own == described(ehkafka.Consumer, by_name(ehkafka.Consumer))
    both = own | shown(of_consumers, "ClientProperties")
    assert shown(of_consumers, "ConsumerOptions") == both


def test_the_calls_of_the_drop_in_for_asyncio() -> None:
    """Each of confluent-kafka's is declared; what is declared for checkers alone is there at run time."""
    names = {name for name in dir(confluent_kafka.aio.AIOConsumer) if not name.startswith("_")}
    own = {name for name, value in vars(AIOConsumer).items() if inspect.iscoroutinefunction(value)}
    tree = ast.parse(inspect.getsource(Calls))
    declared = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    assert declared == {name for name in names if name not in own and name != "executor"}


def test_what_confluent_kafka_takes_by_name() -> None:
    """Else it raises: of a name that it does not know, or of a value."""
    values: dict[str, Any] = {"logger": logging.getLogger("unused"), "log_level": 6, "debug": "cgrp"}
    values["oauth_cb"] = lambda _config: ("token", time.time() + 3600)
    names = of_consumers.ClientProperties.__annotations__
    config = {"group.id": "g", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
    consumer = confluent_kafka.Consumer(config, **{name: values.get(name, print) for name in names})
    consumer.close()
    with pytest.raises(confluent_kafka.KafkaException, match="No such configuration property"):
        confluent_kafka.Consumer({"group.id": "g"}, group_id="g")


def test_a_record_declares_all_that_a_message_can_do() -> None:
    """`Record.__getattr__` finds the rest of a message's names; checkers know what is declared."""
    tree = ast.parse(inspect.getsource(ehkafka.Record))
    declared = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    there = {name for name in dir(confluent_kafka.Message) if not name.startswith("_")}
    assert there - declared == set()
