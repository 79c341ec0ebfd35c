"""Who may what: probes are open, actions need the token, other sites and other names are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.http.access import ADDRESSES_MAX, WRONG_MAX, WRONG_S, Sessions, WrongTokens
from ehkafka.http.options import Http, http_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SKIP = {"do": "skip", "target": "key", "name": "t/0@0", "offset": 0}
OPEN = ("/live", "/ready", "/startup", "/health", "/metrics")
READ = ("/snapshot", "/state")


def test_an_action_needs_the_token(client: Any, token: str) -> None:
    """Without one, with a wrong one, and with the right one, which says where it came from."""
    assert client.post("/actions", SKIP).status == 401
    assert client.post("/actions", SKIP, authorization="Bearer wrong-token-of-24-chars!").status == 401
    assert client.post("/actions", SKIP, authorization=f"Basic {token}").status == 401
    assert client.served.asked == []
    answered = client.post("/actions", SKIP, authorization=f"Bearer {token}")
    assert (answered.status, answered.json["text"]) == (200, "done.")
    [asked] = client.served.asked
    assert asked == SKIP | {"by": "the token, from 127.0.0.1"}


def test_without_a_configured_token_actions_say_what_to_do(serve: Callable[..., Any]) -> None:
    """No action is allowed, on loopback either."""
    client = serve(token=None)
    for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer anything-at-all-here"}):
        answered = client.post("/actions", SKIP, **headers)
        assert answered.status == 403
        assert "EHKAFKA_HTTP_TOKEN" in answered.json["text"]
    assert client.ask("/state").json["access"]["may_act"] is False
    assert client.served.asked == []


@pytest.mark.parametrize("path", READ)
def test_what_is_read_is_open_on_loopback_and_needs_the_token_elsewhere(
    serve: Callable[..., Any], token: str, path: str
) -> None:
    """An app that listens on all addresses says nothing of itself to strangers."""
    assert serve().ask(path).status == 200
    outside = serve(address="0.0.0.0:0")
    assert outside.ask(path).status == 401
    assert outside.ask(path, authorization=f"Bearer {token}").status == 200
    assert serve(token=None, address="0.0.0.0:0").ask(path).status == 403


@pytest.mark.parametrize("path", OPEN)
@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_probes_and_metrics_are_open_by_any_name(serve: Callable[..., Any], path: str, address: str) -> None:
    """A kubelet has no token, and sends the pod's address."""
    client = serve(address=address)
    assert client.ask(path, host="10.1.2.3:8080").status == 200
    assert client.ask(path, host="evil.example").status == 200
    assert client.post(path, {}).status == 405


def test_health_has_its_reasons_for_readers_only(serve: Callable[..., Any], token: str) -> None:
    """They name keys and repeat errors; a probe needs the status, and may have a number."""
    served = serve().served
    served.reasons = ("key hunter2 is on hold", "another")
    outside, inside = serve(address="0.0.0.0:0", served=served), serve(served=served)
    strangers = [
        outside.ask("/health"),
        outside.ask("/health", authorization="Bearer wrong-token-of-24-chars!"),
    ]
    strangers += [
        inside.ask("/health", host="evil.example"),
        inside.ask("/health", origin="http://evil.example"),
    ]
    strangers += [serve(token=None, address="0.0.0.0:0", served=served).ask("/health")]
    for answered in strangers:
        assert (answered.status, answered.json["ok"], answered.json["problems"]) == (503, False, 2)
        assert b"hunter2" not in answered.body
    for answered in (inside.ask("/health"), outside.ask("/health", authorization=f"Bearer {token}")):
        assert answered.json["reasons"] == list(served.reasons)


def test_wrong_tokens_of_an_address_are_few(client: Any, token: str) -> None:
    """By whichever way they come; then the right one waits, too. Probes and cookies go on."""
    entered = client.post("/login", {"token": token})
    cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
    wrong = {"authorization": "Bearer wrong-token-of-24-chars!"}
    for _ in range(WRONG_MAX // 2):
        assert client.post("/login", {"token": "wrong"}).status == 403
        assert client.post("/actions", SKIP, **wrong).status == 401
    assert client.post("/login", {"token": token}).status == 429
    assert client.post("/actions", SKIP, authorization=f"Bearer {token}").status == 429
    assert client.ask("/health", authorization=f"Bearer {token}").json.keys() == {"ok", "problems", "text"}
    assert client.ask("/live", **wrong).status == 200
    assert client.post("/actions", SKIP, **cookie).status == 200


def test_wrong_tokens_are_forgotten_after_a_while() -> None:
    """And a number of addresses is remembered."""
    now_s = [0.0]
    wrong = WrongTokens(lambda: now_s[0])
    for _ in range(WRONG_MAX):
        assert not wrong.are_too_many("a")
        wrong.note("a")
    assert wrong.are_too_many("a")
    assert not wrong.are_too_many("b")
    now_s[0] = WRONG_S
    assert not wrong.are_too_many("a")
    for number in range(2 * ADDRESSES_MAX):
        wrong.note(str(number))
    assert len(wrong._counted) == ADDRESSES_MAX


def test_names_of_the_environment_count(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that is mounted in a web app has no other way to say them."""
    monkeypatch.setenv("EHKAFKA_HTTP_HOSTS", "shop.example, Other.example")
    client = serve()
    for host in ("shop.example", "other.example:8080", "SHOP.example"):
        assert client.ask("/state", host=host).status == 200
    assert client.ask("/state", host="evil.example").status == 421


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.1.2.3", "", "localhost.evil:80", "[::2]"]
)
def test_a_name_that_only_points_here_is_refused(client: Any, host: str, token: str) -> None:
    """Else a page from elsewhere reads loopback through a DNS name of its own."""
    for path in READ:
        assert client.ask(path, host=host).status == 421
    assert client.post("/actions", SKIP, host=host, authorization=f"Bearer {token}").status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_this_machines_names_are_known(client: Any, host: str) -> None:
    """With any port: a forwarded one is another."""
    assert client.ask("/state", host=host).status == 200


def test_further_names_are_known_once_they_are_given(serve: Callable[..., Any]) -> None:
    """Such as an ingress's."""
    assert serve(hosts=("app.example",)).ask("/state", host="app.example").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_what_another_site_asks_is_refused(client: Any, token: str, headers: dict[str, str]) -> None:
    """Whatever it sends along; so is a form, which says no JSON."""
    assert client.post("/actions", SKIP, authorization=f"Bearer {token}", **headers).status == 403
    assert client.ask("/state", **headers).status == 403
    form = {"content_type": "text/plain", "authorization": f"Bearer {token}"}
    assert client.post("/actions", SKIP, **form).status == 415
    assert client.served.asked == []


def test_the_page_itself_may_act(client: Any, token: str) -> None:
    """By the cookie for which it traded the token; it ends with the logout."""
    own = {"origin": f"http://127.0.0.1:{client.port}", "sec_fetch_site": "same-origin"}
    assert client.post("/login", {"token": "no"}, **own).status == 403
    entered = client.post("/login", {"token": token}, **own)
    assert entered.status == 204
    said = entered.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=strict" in said
    assert token not in said
    cookie = {"cookie": said.partition(";")[0], **own}
    assert client.post("/actions", SKIP, **cookie).status == 200
    assert client.ask("/state", **cookie).json["access"]["may_act"] is True
    assert client.post("/logout", {}, **cookie).status == 204
    assert client.post("/actions", SKIP, **cookie).status == 401


@pytest.mark.parametrize("cookie", ["ehkafka-0=", "=", ";;;", "a=b; c", "\x01=1", "ehkafka-0=" + "x" * 4_000])
def test_a_broken_cookie_is_none(client: Any, cookie: str) -> None:
    """And no error."""
    assert client.post("/actions", SKIP, cookie=cookie).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/page/../options.py",
        "/page/..%2f..%2foptions.py",
        "/page/%2e%2e/%2e%2e/errors.py",
        "/page//etc/passwd",
        "//live/../state",
        "/nothing",
        "/state/../actions",
        "/%00",
    ],
)
def test_no_path_leads_out_of_the_page(client: Any, path: str) -> None:
    """Nor to what is behind the token."""
    assert client.ask(path).status in (400, 404)


def test_a_path_trick_does_not_open_what_needs_the_token(serve: Callable[..., Any]) -> None:
    """The same path decides and is served."""
    outside = serve(address="0.0.0.0:0")
    for path in (
        "/page/../state",
        "/live/../state",
        "/page/..%2fstate",
        "/live%2f..%2fstate",
        "//state",
        "/state/",
    ):
        answered = outside.ask(path)
        assert answered.status in (307, 400, 401, 404), path
        assert b"snapshot" not in answered.body


def test_every_answer_has_the_headers(client: Any) -> None:
    """Those of errors and probes, too."""
    for path in ("/", "/live", "/state", "/nothing"):
        headers = client.ask(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_sessions_end_and_are_few() -> None:
    """After their time, and the oldest one when there are too many."""
    now_s = [0.0]
    sessions = Sessions(lambda: now_s[0])
    first = sessions.open()
    assert sessions.is_open(first)
    assert not sessions.is_open("")
    for _ in range(100):
        last = sessions.open()
    assert not sessions.is_open(first)
    now_s[0] = 13 * 3600.0
    assert not sessions.is_open(last)


@pytest.mark.parametrize("text", ["tooshort", "x" * 15, "with a newline\nin its midst", "é" * 20, ""])
def test_a_bad_token_is_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """From the file and from the variable."""
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ehkafka.errors.ConfigurationError) as refused:
        Http(token_file=file).read_token()
    assert not text or text not in str(refused.value)
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", text)
    with pytest.raises(ehkafka.errors.ConfigurationError):
        Http().read_token()


@pytest.mark.parametrize(
    "address", ["8080", ":8080", "127.0.0.1", "127.0.0.1:", "a:b", "a:99999", "a:-1", ""]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """By an error that shows one."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"127\.0\.0\.1:8080"):
        http_of(address)
