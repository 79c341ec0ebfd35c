from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.endpoint.entra.namespace import EntraNamespace
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

PUBLIC = "home.servicebus.windows.net"
CHINA = "home.servicebus.chinacloudapi.cn"
GOVERNMENT = "home.servicebus.usgovcloudapi.net"


@pytest.mark.parametrize(
    "text",
    [
        "home", "HOME", " home ", PUBLIC, "Home.ServiceBus.Windows.NET", f"{PUBLIC}.", f"sb://{PUBLIC}/",
        f"sb://{PUBLIC}", f"https://{PUBLIC}/", f"https://{PUBLIC}:443/", f"{PUBLIC}:9093",
        f"amqps://{PUBLIC}:5671",
    ],
)  # fmt: skip
def test_a_namespace_is_read_from_its_name_or_any_of_its_addresses(text: str) -> None:
    """The bare name, the host name and the addresses that the portal shows are the same namespace."""
    namespace = EntraNamespace.parse(text)
    assert (namespace.host, namespace.bootstrap) == (PUBLIC, f"{PUBLIC}:9093")


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        (PUBLIC, "login.microsoftonline.com"),
        (CHINA, "login.chinacloudapi.cn"),
        (GOVERNMENT, "login.microsoftonline.us"),
    ],
)
def test_each_cloud_has_its_own_scope_and_authority(host: str, authority: str) -> None:
    """A token is asked for this namespace in its own cloud, and of that cloud's Entra ID."""
    namespace = EntraNamespace.parse(host)
    assert (namespace.scope, namespace.authority) == (f"https://{host}/.default", authority)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"), (None, "not text"), (b"home", "not text"), ("ho me", "not a host name"),
        ("home\n.servicebus.windows.net", "not a host name"), ("home/../x", "not a host name"),
        ("user@home", "not a host name"), ("höme", "not a host name"), ("home?x=1", "not a host name"),
        ("-home", "not a host name"), ("home-", "not a host name"), ("home;x", "not a host name"),
        ("home.example.com", "domain"), ("home.servicebus.windows.net.evil.com", "domain"),
        ("home.privatelink.servicebus.windows.net", "private endpoint"),
        ("ftp://home", "not a host name"), (f"{PUBLIC}:80", "port"), (f"{PUBLIC}/hub", "not a host name"),
    ],
)  # fmt: skip
def test_what_is_no_namespace_is_refused_with_the_reason(text: object, reason: str) -> None:
    """Nothing but a namespace gets a token asked for it."""
    with pytest.raises(ConfigurationError, match=reason):
        EntraNamespace.parse(text)


def test_a_connection_string_is_refused_without_repeating_it(
    connection_string: str, key: str, assert_hidden: Callable[..., None]
) -> None:
    """A connection string in the wrong place is named as such, and its key is nowhere."""
    with pytest.raises(ConfigurationError, match=r"Endpoint\.connection_string") as refused:
        EntraNamespace.parse(connection_string)
    assert_hidden(key, refused.value)


@given(st.text(max_size=60))
def test_any_other_text_gives_a_namespace_or_our_error(text: str) -> None:
    """Whatever the text, the result is a clean host name or a refusal that does not repeat it."""
    shown = ""
    try:
        host = EntraNamespace.parse(text).host
    except ConfigurationError as error:
        shown = str(error)
    else:
        assert host.isascii()
        assert host.endswith((".windows.net", ".chinacloudapi.cn", ".usgovcloudapi.net"))
    # Each refusal begins with the parameter's name, and the text may be a part of that.
    assert len(text) < 12 or text not in shown.removeprefix("Endpoint.entra")
