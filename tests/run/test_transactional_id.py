"""Each group and each static member has a transactional id of its own, with its group's prefix."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import ehkafka
from ehkafka.run.exactly_once import transactional_id
from ehkafka.run.options import AppOptions
from ehkafka.settings import Settings

# What joins names to other names: the separator itself, digits that look like a length, and odd ones.
NAMES = st.text(alphabet="-_.:/0123a é", min_size=1, max_size=8).filter(str.strip)


def id_of(group: str, instance_id: str | None) -> str:
    """Return that of an app with these settings."""
    settings: Any = Settings(group=group, start="earliest", instance_id=instance_id)
    endpoint = ehkafka.Endpoint.kafka("127.0.0.1:9")
    return transactional_id(AppOptions(endpoint=endpoint, settings=settings, specs=()))


@given(one=st.tuples(NAMES, NAMES), other=st.tuples(NAMES, NAMES))
@example(("orders", "eu-1"), ("orders-eu", "1"))  # two of one id end each other
@example(("orders", "1-1-3"), ("orders-1", "1-3"))
@example(("o-", "-"), ("o", "--"))
def test_only_equal_names_give_equal_ids(one: tuple[str, str], other: tuple[str, str]) -> None:
    """And these give the same at each start: so the broker ends what the run before left open."""
    assert (id_of(*one) == id_of(*other)) == (one == other)


@given(joined=st.lists(st.sampled_from(["a", "-", "1", "2", "3"]), min_size=3, max_size=10), data=st.data())
def test_one_text_cut_at_two_places_gives_two_ids(joined: list[str], data: Any) -> None:
    """The names of two groups and members that are the same text once they are joined by a hyphen."""
    text = "".join(joined)
    cuts = [at for at in range(1, len(text) - 1) if text[at] == "-"]
    one, other = (data.draw(st.sampled_from(cuts or [0])) for _ in range(2))
    if one != other:
        assert id_of(text[:one], text[one + 1 :]) != id_of(text[:other], text[other + 1 :])


@given(group=NAMES, instance_id=st.none() | NAMES)
def test_each_begins_with_the_name_of_its_group(group: str, instance_id: str | None) -> None:
    """So that an access rule for the prefix is enough."""
    assert id_of(group, instance_id).startswith(f"ehkafka-{group}-")


@given(group=NAMES)
def test_a_run_without_an_instance_id_has_one_of_its_own(group: str) -> None:
    """Which no static member of the group or another one has."""
    one, other = id_of(group, None), id_of(group, None)
    assert one != other
    rest = one.removeprefix(f"ehkafka-{group}-")
    assert id_of(group, rest) != one
