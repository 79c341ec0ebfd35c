from __future__ import annotations

import pytest

from ehkafka.checkpoints.layout import Layout, Place, place_of
from ehkafka.errors import ConfigurationError


def test_names_are_those_of_the_sdks_in_lower_case() -> None:
    """The SDKs write lower-case names and find no others."""
    layout = Layout("Home.ServiceBus.Windows.net", "$Default")
    assert layout.name("Readings", 3) == "home.servicebus.windows.net/readings/$default/checkpoint/3"
    owner = "home.servicebus.windows.net/readings/$default/ehkafka/owner/3"
    assert layout.name("Readings", 3, "ehkafka/owner") == owner
    assert place_of(owner) == Place("home.servicebus.windows.net", "readings", "$default", "ehkafka/owner", 3)


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
    """A group or topic named like a path would end up in somebody else's folder."""
    with pytest.raises(ConfigurationError, match="folder"):
        Layout("ns", name)
    with pytest.raises(ConfigurationError, match="folder"):
        Layout("ns", "group").name(name, 0)


def test_a_name_that_blob_storage_refuses_is_refused_here() -> None:
    """Blob Storage takes 1024 characters."""
    with pytest.raises(ConfigurationError, match="1024"):
        Layout("ns", "g" * 1024).name("topic", 0)
