from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.endpoint.entra import token_source
from ehkafka.endpoint.entra.token_source import ATTEMPTS_AT_ONCE, NO_TOKEN, OVERTAKEN_AFTER_S, TokenSource
from ehkafka.errors import EndpointError
from ehkafka.events import Event, TokenRefreshed, TokenRefreshFailed
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIFE_S = 1000.0
TIMEOUT_S = 20.0
NAME = "home.servicebus.windows.net"


class Clock:
    """Real time that can be skipped; both clocks move together."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def wall(self) -> float:
        """Return epoch seconds."""
        return time.time() + self.skipped_s

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic() + self.skipped_s


class Credential:
    """Gives tokens t1, t2, … until asked otherwise; `hold` makes the next questions wait for `release`."""

    def __init__(self, clock: Clock) -> None:
        self.asked = 0
        self.life_s = LIFE_S
        self.fault: Any = None
        self.released = threading.Event()
        self.released.set()
        self._clock = clock

    def fetch(self) -> Any:
        """Do as asked, by what was known before the wait."""
        self.asked += 1
        number, fault, released = self.asked, self.fault, self.released
        expires_on = self._clock.wall() + self.life_s
        assert released.wait(TIMEOUT_S)
        if isinstance(fault, BaseException):
            raise fault
        if fault is not None:
            return fault
        return SimpleNamespace(token=f"t{number}", expires_on=expires_on)

    def hold(self) -> threading.Event:
        """Make questions wait until the result is set."""
        self.released = threading.Event()
        return self.released


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the source."""
    return Clock()


@pytest.fixture
def credential(clock: Clock) -> Iterator[Credential]:
    """Return the credential of the source; nothing waits for it afterwards."""
    made = Credential(clock)
    yield made
    made.released.set()


@pytest.fixture
def source(clock: Clock, credential: Credential) -> TokenSource:
    """Return a source without a token, and without jitter."""
    return TokenSource(
        credential.fetch, NAME, now_s=clock.wall, clock=clock.monotonic, chance=lambda: 0.999999
    )


@pytest.fixture
def noted(source: TokenSource) -> list[Event]:
    """Return what the source tells."""
    reported: list[Event] = []
    source.listen(reported.append)
    return reported


def ended(source: TokenSource, running: int = 0) -> None:
    """Wait until no more attempts run than these."""
    wait_until(
        lambda: (
            source._running <= running
            and any(thread.name == "ehkafka-token" for thread in threading.enumerate()) <= running
        ),
        timeout_s=TIMEOUT_S,
    )


def test_a_token_is_fetched_once_for_all_who_ask(
    source: TokenSource, credential: Credential, clock: Clock
) -> None:
    """Any number of clients share one token, each with its own expiry."""
    source.sign_in()
    source.sign_in()
    answers = [source.oauth_cb("") for _ in range(5)]
    assert {text for text, _ in answers} == {"t1"}
    assert answers[0][1] == pytest.approx(clock.wall() + LIFE_S, abs=1.0)
    assert (credential.asked, source.attempts) == (1, 1)


def test_a_thread_that_asks_the_credential_is_known_as_the_sources(clock: Clock) -> None:
    """A credential that stops the app must not wait for it: see `App.stop`."""
    askers: list[threading.Thread] = []

    def fetch() -> Any:
        askers.append(threading.current_thread())
        return SimpleNamespace(token="t", expires_on=clock.wall() + LIFE_S)

    source = TokenSource(fetch, NAME, now_s=clock.wall, clock=clock.monotonic)
    source.sign_in()
    assert [source.owns(thread) for thread in (*askers, threading.current_thread())] == [True, False]


def test_who_asks_for_a_token_that_is_due_gets_a_new_one(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event]
) -> None:
    """Librdkafka asks at 80 % of the life; the answer is already the next token, reported at DEBUG."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S
    assert source.oauth_cb("") == ("t2", pytest.approx(clock.wall() + LIFE_S, abs=1.0))
    ended(source)
    assert [type(event) for event in noted] == [TokenRefreshed, TokenRefreshed]
    assert noted[1].life_s == pytest.approx(LIFE_S, abs=1.0)


def test_many_who_ask_at_once_start_one_attempt(
    source: TokenSource, credential: Credential, clock: Clock
) -> None:
    """Clients that ask together wait for the same attempt."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S
    hold = credential.hold()
    answers: list[tuple[str, float]] = []
    threads = [threading.Thread(target=lambda: answers.append(source.oauth_cb(""))) for _ in range(8)]
    for thread in threads:
        thread.start()
    hold.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert [text for text, _ in answers] == ["t2"] * 8
    assert credential.asked == 2


@pytest.mark.parametrize("fault", [RuntimeError("no"), SystemExit(1), None, "nonsense"])
def test_a_failed_refresh_keeps_the_token_in_use_and_is_reported(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event], fault: Any
) -> None:
    """Consumption goes on with the valid token; the failure is counted and explained, a WARNING."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S
    credential.fault = fault if fault is not None else SimpleNamespace(token=None)
    text, asks_again_by_s = source.oauth_cb("")
    ended(source)
    assert text == "t1"
    assert 0 < asks_again_by_s - clock.wall() < 10.0
    (failed,) = [event for event in noted if isinstance(event, TokenRefreshFailed)]
    assert (failed.endpoint, failed.failures) == (NAME, 1)
    assert failed.valid_s == pytest.approx(0.2 * LIFE_S, abs=2.0)
    assert type(fault).__name__ in failed.error or "credential returned" in failed.error


def test_after_a_failure_the_next_success_says_how_many_there_were(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event]
) -> None:
    """Failures are counted in a row, each later than the one before; a success ends the row."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S
    credential.fault = RuntimeError("no")
    for _ in range(3):
        source.oauth_cb("")
        ended(source)
        clock.skipped_s += 5.0
    credential.fault = None
    assert source.oauth_cb("")[0] == "t5"
    ended(source)
    failed = [event for event in noted if isinstance(event, TokenRefreshFailed)]
    assert [event.failures for event in failed] == [1, 2, 3]
    assert [round(event.retry_s) for event in failed] == [1, 2, 4]
    assert isinstance(noted[-1], TokenRefreshed)
    assert noted[-1].failures == 3


def test_without_any_valid_token_librdkafka_is_made_to_ask_again_soon(
    source: TokenSource, credential: Credential, clock: Clock
) -> None:
    """An expired token is handed over with a short life, for an error would cost ten seconds."""
    source.sign_in()
    clock.skipped_s += 2 * LIFE_S
    credential.fault = RuntimeError("no")
    text, asks_again_by_s = source.oauth_cb("")
    assert text == "t1"
    assert 0 < asks_again_by_s - clock.wall() <= 2.0
    never = TokenSource(credential.fetch, NAME)
    assert never.oauth_cb("")[0] == NO_TOKEN
    ended(source)


def test_a_question_is_answered_whatever_breaks(
    source: TokenSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can be started, as at the interpreter's end, the answer is still one."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    text, asks_again_by_s = source.oauth_cb("")
    assert text == "t1"
    assert asks_again_by_s > clock.wall()


def test_a_slow_credential_delays_no_client(
    source: TokenSource, credential: Credential, clock: Clock
) -> None:
    """Who asks waits a second at most, with the old token as answer; the late token is used after."""
    source.sign_in()
    clock.skipped_s += 0.8 * LIFE_S
    hold = credential.hold()
    began_s = unstolen_s()
    assert source.oauth_cb("")[0] == "t1"
    assert unstolen_s() - began_s < 5.0
    hold.set()
    ended(source)
    assert source.oauth_cb("")[0] == "t2"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make questions wait for no attempt."""
    monkeypatch.setattr(token_source, "ANSWER_S_MAX", 0.0)


@pytest.mark.usefixtures("impatient")
def test_an_attempt_that_hangs_is_overtaken_and_reported(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event]
) -> None:
    """A dead connection inside the credential does not keep the next attempt from succeeding."""
    source.sign_in()
    clock.skipped_s += 2 * LIFE_S
    hanging = credential.hold()
    source.oauth_cb("")
    credential.released = threading.Event()
    credential.released.set()
    source.oauth_cb("")
    assert credential.asked == 2, "overtaken at once"
    clock.skipped_s += OVERTAKEN_AFTER_S
    source.oauth_cb("")
    ended(source, running=1)
    assert source.oauth_cb("")[0] == "t3"
    assert "has not answered for 5 s" in next(e.error for e in noted if isinstance(e, TokenRefreshFailed))
    # The one that hung comes back, with a token that is older or an error: neither counts.
    hanging.set()
    ended(source)
    assert source.oauth_cb("")[0] == "t3"
    assert sum(isinstance(event, TokenRefreshFailed) for event in noted) == 1


@pytest.mark.usefixtures("impatient")
def test_a_late_failure_after_a_success_is_no_failure(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event]
) -> None:
    """What an overtaken attempt ends with says nothing about now."""
    source.sign_in()
    clock.skipped_s += 2 * LIFE_S
    credential.fault = RuntimeError("late")
    hanging = credential.hold()
    source.oauth_cb("")
    credential.fault, credential.released = None, threading.Event()
    credential.released.set()
    clock.skipped_s += OVERTAKEN_AFTER_S
    source.oauth_cb("")
    ended(source, running=1)
    reported = len(noted)
    hanging.set()
    ended(source)
    assert noted[reported:] == []
    assert source.oauth_cb("")[0] == "t3"


@pytest.mark.usefixtures("impatient")
def test_a_credential_that_always_hangs_costs_a_few_threads_only(
    source: TokenSource, credential: Credential, clock: Clock, noted: list[Event]
) -> None:
    """Attempts that never end are bounded, and go on being reported."""
    source.sign_in()
    clock.skipped_s += 2 * LIFE_S
    credential.hold()
    for _ in range(3 * ATTEMPTS_AT_ONCE):
        source.oauth_cb("")
        clock.skipped_s += OVERTAKEN_AFTER_S
    assert credential.asked == 1 + ATTEMPTS_AT_ONCE
    assert sum(isinstance(event, TokenRefreshFailed) for event in noted) > 2 * ATTEMPTS_AT_ONCE
    credential.released.set()
    ended(source)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("life_s", "most"), [(36_000.0, 30), (0.0, 420)])
def test_ten_minutes_without_a_token_endpoint_are_no_busy_loop(
    source: TokenSource, credential: Credential, clock: Clock, life_s: float, most: int
) -> None:
    """Row 13: librdkafka asks each second for 10 minutes; the credential is asked seldom."""
    credential.life_s = life_s or LIFE_S
    source.sign_in()
    clock.skipped_s += 0.75 * credential.life_s if life_s else 2 * LIFE_S
    credential.fault = RuntimeError("no")
    for _ in range(600):
        source.oauth_cb("")
        ended(source)
        clock.skipped_s += 1.0
    assert 15 < credential.asked < most


@pytest.mark.usefixtures("impatient")
def test_a_credential_that_keeps_returning_an_old_token_is_not_asked_in_a_loop(
    source: TokenSource, credential: Credential
) -> None:
    """Where each token is due as soon as it comes, the credential is asked once a second."""
    credential.life_s = 0.01
    began_s = time.monotonic()
    for _ in range(20):
        source.oauth_cb("")
        ended(source)
        time.sleep(0.011)
    assert 1 <= credential.asked <= 2 + (time.monotonic() - began_s)


@pytest.mark.parametrize("fault", [RuntimeError("the secret is eyJhbGciOiJub25lIn0.aaaaaaaa.b"), "nonsense"])
def test_a_failure_at_the_start_is_one_clear_error(
    source: TokenSource, credential: Credential, fault: Any
) -> None:
    """Reported at once, by name, with nothing of the credential's own error attached to it."""
    credential.fault = fault
    with pytest.raises(EndpointError, match=rf"{NAME}: there is no Entra ID token") as refused:
        source.sign_in()
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert "aaaaaaaa" not in str(refused.value)
    assert credential.asked == 1
    credential.fault = None
    source.sign_in()


def test_a_slow_start_ends_with_the_time_that_it_has(source: TokenSource, credential: Credential) -> None:
    """A credential that does not answer within connect_s is an error about that."""
    hold = credential.hold()
    began_s = unstolen_s()
    with pytest.raises(EndpointError, match=r"did not answer within 0\.2 s"):
        source.sign_in(0.2)
    assert unstolen_s() - began_s < 5.0
    hold.set()
    ended(source)


def test_who_listens_no_more_hears_no_more(source: TokenSource, clock: Clock) -> None:
    """An app that has stopped hears nothing of an endpoint that others use on."""
    reported: list[Event] = []
    stop: Callable[[], None] = source.listen(reported.append)
    source.sign_in()
    ended(source)
    stop()
    clock.skipped_s += 0.8 * LIFE_S
    source.oauth_cb("")
    ended(source)
    assert len(reported) == 1


def test_problem_is_there_while_refreshes_fail_and_gone_with_the_next_token(
    source: TokenSource, credential: Credential, clock: Clock
) -> None:
    """From the second failure in a row on, for the first is mostly over within a second."""
    assert source.problem is None
    source.oauth_cb("")
    assert source.problem is None
    clock.skipped_s += 0.8 * LIFE_S
    credential.fault = RuntimeError("no route")
    source.oauth_cb("")
    ended(source)
    assert source.problem is None
    clock.skipped_s += 60.0
    source.oauth_cb("")
    ended(source)
    problem = source.problem
    assert problem is not None
    assert "2 attempts in a row" in problem
    assert "no route" in problem
    assert "valid for another" in problem
    assert NAME in problem
    credential.fault = None
    clock.skipped_s += 60.0
    source.oauth_cb("")
    ended(source)
    assert source.problem is None


def test_without_a_valid_token_the_first_failure_is_problem(
    source: TokenSource, credential: Credential
) -> None:
    """Then no client can connect."""
    credential.fault = RuntimeError("no route")
    with pytest.raises(EndpointError):
        source.sign_in()
    ended(source)
    problem = source.problem
    assert problem is not None
    assert "one attempt" in problem
    assert "No token is valid now" in problem
