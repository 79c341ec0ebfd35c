"""What `ehkafka run --engine spark` hands to the engine."""

from __future__ import annotations

import pytest

from ehkafka.cli.run_spark import Engine, SparkArguments
from ehkafka.errors import ConfigurationError


def test_options_of_the_source_are_handed_on() -> None:
    """By name; a value may hold an equals sign. Without any the engine decides alone."""
    given = ["tasks=8", "kafka.ssl.ca.location=/a=b.pem"]
    choices = SparkArguments(engine=Engine.SPARK, source_option=given).choices()
    assert choices["source_options"] == {"tasks": "8", "kafka.ssl.ca.location": "/a=b.pem"}
    assert "source_options" not in SparkArguments(engine=Engine.SPARK).choices()


@pytest.mark.parametrize("given", ["tasks", "=8"])
def test_an_option_of_the_source_without_a_name_or_a_value_is_refused(given: str) -> None:
    """With the way to write it."""
    with pytest.raises(ConfigurationError, match=r"--source-option '.*': write it as name=value"):
        SparkArguments(engine=Engine.SPARK, source_option=[given]).choices()


def test_options_of_the_source_belong_to_spark() -> None:
    """In this process nothing would read them."""
    with pytest.raises(ConfigurationError, match="--source-option"):
        SparkArguments(source_option=["tasks=8"]).check()
