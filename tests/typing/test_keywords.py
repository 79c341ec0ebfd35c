"""What type checkers are shown of settings and options is what the program takes, with the same words."""

from __future__ import annotations

import ast
import inspect
import logging
import time
from typing import Any

import confluent_kafka
import confluent_kafka.aio
import pytest

import ehkafka
from ehkafka.aio import AIOConsumer
from ehkafka.aio.calls import Calls
from ehkafka.consumer import keywords as of_consumers
from tests.typing import declared


def test_what_is_written_out_of_the_declarations_is_up_to_date() -> None:
    """The keyword types and the page's tables: `python -m tests.typing.declared` writes them."""
    assert declared.KEYWORDS.read_text() == declared.keywords()
    assert declared.DROP_INS.read_text() == declared.drop_ins()
    assert declared.PAGE.read_text() == declared.page()


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
