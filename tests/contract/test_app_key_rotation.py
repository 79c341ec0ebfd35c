"""A key that changes while an app runs. The embedded broker asks for none; a real one is in integration."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka.endpoint.entra.token_source import TokenSource
from ehkafka.events import AppStopping, CredentialRotated, CredentialUnusable
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def secret(key: str) -> str:
    """Return a connection string."""
    return f"Endpoint=sb://ns.example.test/;SharedAccessKeyName=app;SharedAccessKey={key}"


def write(path: Path, key: str) -> None:
    """Put a key into the file at once, as a mount does: nobody reads half of it."""
    following = path.with_name("following")
    following.write_text(secret(key))
    following.replace(path)


def rotating(lab: Any, path: Path) -> ehkafka.Endpoint:
    """Return the lab's endpoint with the credential of another; the embedded broker does not look at it."""
    return dataclasses.replace(lab.endpoint, credential=ehkafka.Endpoint.connection_string(path).credential)


def test_an_app_takes_up_a_changed_key_and_tells_it(
    lab: Any, recorder: Any, events: Any, tmp_path: Path
) -> None:
    """A file that goes missing, and comes back with another key, is reported as that; records go on."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    lab.produce("a b c")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(lambda: recorder.count == 3)
    path.unlink()
    wait_until(lambda: events.of(CredentialUnusable))
    lab.produce("d e f")
    wait_until(lambda: recorder.count == 6)
    write(path, "bmV3bmV3bmV3")
    wait_until(lambda: events.of(CredentialRotated))
    app.stop()
    assert events.of(CredentialRotated) == [CredentialRotated(f"file {path}")]
    assert app.snapshot().counters["CredentialUnusable"] == len(events.of(CredentialUnusable))


def test_a_key_that_changes_during_a_drain_is_taken_up(
    lab: Any, recorder: Any, events: Any, tmp_path: Path
) -> None:
    """The commit at the end of a long drain is not refused because of a key of before it."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    gate = recorder.block()
    lab.produce("a b c")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(lambda: len(recorder.started) == 3)
    stopping = threading.Thread(target=app.stop)
    stopping.start()
    wait_until(lambda: events.of(AppStopping))
    write(path, "bmV3bmV3bmV3")
    wait_until(lambda: events.of(CredentialRotated))
    assert recorder.count == 0
    gate.set()
    stopping.join(15.0)
    assert lab.committed() == 3


def test_health_names_a_key_that_cannot_be_read_again_while_that_lasts(
    lab: Any, recorder: Any, tmp_path: Path
) -> None:
    """Whoever looks at health sees it before the old key is withdrawn; green again afterwards."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(app.health)
    path.unlink()
    wait_until(lambda: not app.health())
    (reason,) = app.health().reasons
    assert f"file {path}" in reason
    assert "does not exist" in reason
    write(path, "b2xkb2xkb2xk")
    wait_until(app.health)


def test_health_names_problem_with_tokens(lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded broker asks for no token, so the endpoint only carries a source with a problem."""
    tokens = TokenSource(lambda: None, "home.servicebus.windows.net")
    monkeypatch.setattr(TokenSource, "sign_in", lambda *_arguments: None)
    app = lab.start(recorder, endpoint=dataclasses.replace(lab.endpoint, tokens=tokens))
    wait_until(app.health)
    tokens.oauth_cb("")
    wait_until(lambda: not app.health())
    assert "No new token for home.servicebus.windows.net" in app.health().reasons[0]
    app.stop()
    assert app.health().reasons == ("The app is stopped.",)
