"""Hostile input for each decoder. `scripts/fuzz` judges a million inputs and more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ehkafka.checkpoints.mirror import body
from ehkafka.checkpoints.stores import container
from ehkafka.codecs import typed
from ehkafka.endpoint.keys import connection_string
from ehkafka.headers import amqp
from ehkafka.http import access
from ehkafka.members import channel
from ehkafka.progress import metadata
from ehkafka.recovery.letters import letter
from tests.kit.fuzz import TARGETS
from tests.kit.mutant import table

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

SEEDS = int(os.environ.get("EHKAFKA_FUZZ_SEEDS", "1"))
# Enough to notice each guard that is gone.
INPUTS = 3_000


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", TARGETS)
def test_no_seed_breaks_a_decoder(name: str, seed: int) -> None:
    """Nothing raises, and nothing grows beyond its bounds; some inputs are taken, and some are refused."""
    inputs = TARGETS[name].inputs_per_seed // 4
    assert inputs // 20 < TARGETS[name].run(seed, inputs) < inputs


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_replays_exactly(name: str) -> None:
    """What a failing run prints can be had again."""
    assert TARGETS[name].run(5, 100) == TARGETS[name].run(5, 100)


def fuzz(name: str) -> None:
    """Raise for what is wrong."""
    TARGETS[name].run(1, INPUTS)


# In the words of `tests.kit.mutant.table`.
GUARDS = r"""
amqp._go_deeper: values nest without an end
    walk.depth > DEPTH_MAX -> False
    by name="headers"
_Walk.__init__: a value has any number of others
    self.items_left = ITEMS_MAX -> self.items_left = 5_000
    by name="headers"
TypedCodec.misfit: a payload that does not fit is the handler's error
    of_library(error) -> None
    by name="payloads"
metadata._parts: damaged texts are believed
    or _packed(signed) != packed ->
    by name="commit-metadata"
metadata._read: a witness lies beyond its commit
    if not _is_sayable(witness, next_offset): -> if False:
    by name="commit-metadata"
body._ranges: finished ranges lie below the next offset, or in no order
    if not least <= start < end <= OFFSET_MAX: -> if False:
    by name="checkpoints"
connection_string._name: an error repeats what stands in a name's place
    f"part {number} (between ';') has no '=' -> f"{given} has no '='
    by name="connection-strings"
Container.parse: an address that is no URL is an error of Python's
    except ValueError: -> except KeyError:
    by name="settings"
letter._number: a number of a letter is of any length
    and len(text) <= 19 ->
    by name="dead-letters"
AccessRules.refusal: actions need no token
    return None if has_token else WITHOUT_TOKEN -> return None
    by name="requests"
Lines.feed: a piece takes the place of the one before
    self._buffer += data -> self._buffer = bytearray(data)
    by name="members-wire"
"""
IN = (access, amqp, body, channel, connection_string, container, letter, metadata, typed)


@pytest.mark.parametrize("mutant", table(GUARDS, fuzz, *IN), ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that is gone is noticed by some thousand inputs."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
