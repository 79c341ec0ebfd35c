"""A message of the list is whole: with the words of a helper around it, and those of a variable in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prose import raised
from tests.prose.raised import Message, messages_of

if TYPE_CHECKING:
    from pathlib import Path

HELPER = """
def _wrong(what):
    return ConfigurationError(f"the key of the app: {what} (see the page)")
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            'raise ValueError(f"the topic {name} has no partitions")',
            Message("ValueError: the topic {name} has no partitions", is_part=False),
        ),
        (
            'def f(n):\n    why = f" in {n} seconds"\n    raise ValueError(f"No answer came{why}.")',
            Message("ValueError: No answer came in {n} seconds.", is_part=False),
        ),
        (
            'raise Problem("no answer in time", "Check the network.")',
            Message("ehkafka check, {step} failed: no answer in time. Check the network.", is_part=False),
        ),
        (
            HELPER + 'raise _wrong(f"it is {kind}")',
            Message("ConfigurationError: the key of the app: it is {kind} (see the page)", is_part=False),
        ),
        (
            'note(f"the other half of a sentence of {one}")',
            Message("the other half of a sentence of {one}", is_part=True),
        ),
    ],
)
def test_a_message_is_whole(
    source: str, message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a text that other words surround is called a part."""
    monkeypatch.setattr(raised, "ROOT", tmp_path)
    raised._makers.cache_clear()
    file = tmp_path / "ehkafka" / "a_file.py"
    file.parent.mkdir()
    file.write_text(source)
    assert message in messages_of(file)
    raised._makers.cache_clear()
