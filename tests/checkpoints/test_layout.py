from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.checkpoints.layout import KINDS, BlobName, Kind, Layout, place_of
from ehkafka.errors import ConfigurationError


def test_names_are_those_of_the_sdks_in_lower_case() -> None:
    """The SDKs write lower-case names and find no others."""
    layout = Layout("Home.ServiceBus.Windows.net", "$Default")
    assert layout.name("Readings", 3) == "home.servicebus.windows.net/readings/$default/checkpoint/3"
    owner = "home.servicebus.windows.net/readings/$default/ehkafka/owner/3"
    assert layout.name("Readings", 3, "ehkafka/owner") == owner
    assert place_of(owner) == BlobName(
        "home.servicebus.windows.net", "readings", "$default", "ehkafka/owner", 3
    )


NAMES = st.text(min_size=1, max_size=20).filter(lambda name: "/" not in name and name.strip(".")) | (
    st.sampled_from(["checkpoint", "ehkafka", "owner", "ownership", "größe", "a.b"])
)


@given(NAMES, NAMES, NAMES, st.integers(0, 9999), st.sampled_from(KINDS))
def test_every_name_is_read_as_it_was_made(
    namespace: str, topic: str, group: str, partition: int, kind: Kind
) -> None:
    """Whatever topics and groups are called, in whichever script, and were it like a folder of ours."""
    name = Layout(namespace, group).name(topic, partition, kind)
    assert place_of(name) == BlobName(namespace.lower(), topic.lower(), group.lower(), kind, partition)


@given(st.text(max_size=60) | st.lists(NAMES | st.just(""), max_size=6).map("/".join))
def test_any_name_can_be_read(name: str) -> None:
    """Other programs may write to a container, too."""
    place = place_of(name)
    assert place is None or name.endswith(str(place.kind) + "/" + name.rpartition("/")[2])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b/c/checkpoint/",
        "a/b/c/checkpoint/x",
        "a/b/c/checkpoint/-1",
        "a/b/c/checkpoint/٣",
        "a/b/checkpoint/1",
        "x/a/b/c/checkpoint/1",
        "a//c/checkpoint/1",
        "a/b/c/lease/1",
        "a/b/c/checkpoint/" + "9" * 99,
    ],
)
def test_other_names_are_no_place_of_ours(name: str) -> None:
    """Blobs of others in the same container are left alone."""
    assert place_of(name) is None


@pytest.mark.parametrize("name", ["", "a/b", "..", "."])
def test_names_that_leave_their_folder_are_refused(name: str) -> None:
    """A group or topic named like a path would end up in another group's folder."""
    with pytest.raises(ConfigurationError, match="folder"):
        Layout("ns", name)
    with pytest.raises(ConfigurationError, match="folder"):
        Layout("ns", "group").name(name, 0)


def test_a_name_that_blob_storage_refuses_is_refused_here() -> None:
    """Blob Storage takes 1024 characters."""
    with pytest.raises(ConfigurationError, match="1024"):
        Layout("ns", "g" * 1024).name("topic", 0)
