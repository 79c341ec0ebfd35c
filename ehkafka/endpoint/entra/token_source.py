"""Keeps one valid token for all clients of an endpoint, whatever the credential does.

librdkafka asks for the token on a thread of its own (`oauth_cb`), again at 80 % of the life that it was
reported. Its question is this module's only clock: a token that is due is fetched by a daemon thread that
lives for one attempt, so nothing runs when no client is there, and a credential that hangs blocks neither
the poll loop, nor a stop, nor the end of the interpreter. As long as no new token is there, librdkafka is
handed the old one with a short life, expired or not, and therefore asks again soon.

`oauth_cb` must never raise and never answer what librdkafka cannot read: it would wait 10 s, or for ever.
No secret leaves this module but through `oauth_cb`. Any thread may call any method.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from ehkafka.endpoint.entra.token import LIBRDKAFKA_ASKS_AT, ask_after_s, is_due, read_token, retry_delay_s
from ehkafka.endpoint.entra.token_problem import explain
from ehkafka.errors import EndpointError
from ehkafka.events import TokenRefreshed, TokenRefreshFailed
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.endpoint.entra.token import Token
    from ehkafka.events import Event

FIRST_TOKEN_S = 15.0
# How long one question of librdkafka's may wait for an attempt; the close of a client waits for it too.
ANSWER_S_MAX = 1.0
# The least life that librdkafka hears of: it asks again when its timer, each second, comes round.
ASK_AGAIN_S = 0.5
# An attempt that takes longer gets company: the credential may hang on a connection that is dead.
OVERTAKEN_AFTER_S = 5.0
# All attempts together, forgotten ones too: as many as begin while azure-identity's own patience lasts.
ATTEMPTS_AT_ONCE = 8
# Between two successes: a credential that keeps returning a nearly expired token is not asked in a loop.
SPACING_S = 1.0
# The broker refuses it like an expired token. Handed out only to a client that was made past `sign_in`.
NO_TOKEN = "no-token"  # noqa: S105 - it says so itself


class TokenSource:
    """The token of one endpoint. `fetch` asks the credential; `name` is the endpoint's, for messages."""

    def __init__(
        self,
        fetch: Callable[[], object],
        name: str,
        *,
        now_s: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._fetch = fetch
        self._name = name
        # Tokens expire by the wall clock, as librdkafka counts; all waiting goes by the monotonic one.
        self._now_s = now_s
        self._clock = clock
        self._chance = chance
        # Guards all below; notified when an attempt ends. Never held while the credential or a listener runs.
        self._changed = threading.Condition()
        self._token: Token | None = None
        self._threads: WeakSet[threading.Thread] = WeakSet()  # one for each attempt
        self._begun_s: list[float] = []  # of the attempts that are waited for, oldest first
        self._running = 0  # attempts; more than these if some were begun before the last success
        self._asked_s = float("-inf")  # when the last one was begun, or the others last found overdue
        self._next_attempt_s = float("-inf")
        self._failures = 0  # in a row
        self._problem = ""
        self._attempts = 0
        self._ended_badly = 0
        self._listeners: tuple[Callable[[Event], None], ...] = ()

    def __repr__(self) -> str:
        return f"<TokenSource {self._name}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        # A copy of a client's properties shares the token.
        return self

    @property
    def attempts(self) -> int:
        """How often the credential was asked so far."""
        with self._changed:
            return self._attempts

    @property
    def valid_s(self) -> float:
        """How long the token in use is still valid; 0 where none is."""
        with self._changed:
            return self._remaining_s()

    @property
    def problem(self) -> str | None:
        """Why no new token comes, while that lasts. One failure while a token is valid is none yet."""
        with self._changed:
            remaining_s = self._remaining_s()
            if not self._failures or (self._failures == 1 and remaining_s > 0):
                return None
            state = (
                f"The current token is valid for another {remaining_s:.0f} s"
                if remaining_s > 0
                else "No token is valid now, so the broker refuses the client"
            )
            failures = f"{self._failures} attempts in a row" if self._failures > 1 else "one attempt"
            return f"No new token for {self._name} after {failures}: {ended(self._problem)} {state}."

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one on which the credential is asked."""
        return thread in self._threads

    def listen(self, report: Callable[[Event], None]) -> Callable[[], None]:
        """Tell of refreshes from now on, on threads of the source's; the result ends it."""
        with self._changed:
            self._listeners = (*self._listeners, report)

        def stop() -> None:
            with self._changed:
                self._listeners = tuple(each for each in self._listeners if each is not report)

        return stop

    def sign_in(self, timeout_s: float = FIRST_TOKEN_S) -> None:
        """Have a valid token, from one attempt of the credential's own; called before a client is made.

        Raises `EndpointError` when that fails or takes longer.
        """
        give_up_s = self._clock() + timeout_s
        events: list[Event] = []
        with self._changed:
            failures_before = self._ended_badly
            while self._remaining_s() <= 0 and self._ended_badly == failures_before:
                now_s = self._clock()
                if now_s >= give_up_s:
                    break
                if self._begun_s:
                    events += self._overtake_if_overdue(now_s)
                else:
                    self._begin()
                self._changed.wait(min(give_up_s - now_s, OVERTAKEN_AFTER_S))
            if self._remaining_s() > 0:
                return
            problem = self._problem if self._ended_badly != failures_before else ""
        for event in events:
            self._report(event)
        # Outside of any handler: the credential's own error may hold a token, so it is no cause or context.
        problem = problem or (
            f"The credential did not answer within {seconds(timeout_s)}: check the network route to Entra "
            f"ID, or to this machine's identity endpoint. If it is only slow, raise connect_s"
        )
        raise EndpointError(f"{self._name}: there is no Entra ID token to connect with. {ended(problem)}")

    def oauth_cb(self, _config: str) -> tuple[str, float]:
        """Answer librdkafka's question: the token, and until when (epoch seconds) not to ask again."""
        try:
            with self._changed:
                events = self._refresh_if_due()
                answer = self._answer()
            for event in events:
                self._report(event)
            return answer  # noqa: TRY300 - an answer that cannot be made is an error as well
        except BaseException as error:  # an error would keep librdkafka from ever asking again
            with self._changed:
                self._problem = explain(error)
                text = self._token.text.reveal() if self._token is not None else NO_TOKEN
            return text, self._now_s() + ASK_AGAIN_S

    def _answer(self) -> tuple[str, float]:
        token, now_s = self._token, self._now_s()
        if token is None:
            return NO_TOKEN, now_s + ASK_AGAIN_S
        if not self._is_due():
            reported_s = now_s + ask_after_s(token.expires_at_s - now_s) / LIBRDKAFKA_ASKS_AT
            return token.text.reveal(), min(token.expires_at_s, reported_s)
        wait_s = 0.0 if self._begun_s else self._next_attempt_s - self._clock()
        again_s = now_s + max(ASK_AGAIN_S, wait_s / LIBRDKAFKA_ASKS_AT)
        if token.expires_at_s - now_s < ASK_AGAIN_S:
            return token.text.reveal(), now_s + ASK_AGAIN_S
        return token.text.reveal(), min(token.expires_at_s, again_s)

    def _refresh_if_due(self) -> list[Event]:
        """Begin an attempt when one is due and wait a moment for it, so that its token is the answer."""
        events: list[Event] = []
        give_up_s = self._clock() + ANSWER_S_MAX
        while self._is_due():
            now_s = self._clock()
            if self._begun_s:
                events += self._overtake_if_overdue(now_s)
            elif now_s >= self._next_attempt_s:
                self._begin()
            wait_until_s = give_up_s if self._begun_s else self._next_attempt_s
            if now_s >= give_up_s or wait_until_s > give_up_s:
                break
            self._changed.wait(max(wait_until_s - now_s, 0.0))
        return events

    def _overtake_if_overdue(self, now_s: float) -> list[Event]:
        """Ask again while an attempt takes too long, and report it: that attempt cannot."""
        if now_s - self._asked_s < OVERTAKEN_AFTER_S:
            return []
        self._begin()
        self._asked_s = now_s
        self._failures += 1
        self._problem = (
            f"the credential has not answered for {now_s - self._begun_s[0]:.0f} s: check the network "
            f"route to Entra ID, or to this machine's identity endpoint"
        )
        remaining_s = self._remaining_s()
        return [TokenRefreshFailed(self._name, self._failures, self._problem, remaining_s, OVERTAKEN_AFTER_S)]

    def _is_due(self) -> bool:
        token = self._token
        return token is None or is_due(self._remaining_s(), token.life_s)

    def _remaining_s(self) -> float:
        return 0.0 if self._token is None else max(0.0, self._token.expires_at_s - self._now_s())

    def _begin(self) -> None:
        begun_s = self._clock()
        if self._running >= ATTEMPTS_AT_ONCE:
            self._next_attempt_s = begun_s + OVERTAKEN_AFTER_S
            return
        thread = threading.Thread(target=self._attempt, args=(begun_s,), name="ehkafka-token", daemon=True)
        self._threads.add(thread)
        thread.start()
        self._begun_s.append(begun_s)
        self._asked_s = begun_s
        self._attempts += 1
        self._running += 1

    def _attempt(self, begun_s: float) -> None:
        """One question to the credential, on a thread of its own."""
        try:
            token = read_token(self._fetch(), self._now_s())
        except BaseException as error:  # whatever a credential raises, sys.exit included, is a failed attempt
            event = self._failed(begun_s, error)
        else:
            event = self._succeeded(begun_s, token)
        if event is not None:
            self._report(event)

    def _report(self, event: Event) -> None:
        for report in self._listeners:
            report(event)

    def _succeeded(self, begun_s: float, token: Token) -> Event | None:
        with self._changed:
            self._running -= 1
            # A call that still hangs is forgotten, so that the next refresh does not wait for it.
            self._begun_s.clear()
            known = self._token
            # An attempt that was overtaken may come late, with the older token.
            if known is None or token.expires_at_s >= known.expires_at_s:
                self._token = token
            now_s = self._clock()
            failures, self._failures, self._problem = self._failures, 0, ""
            self._next_attempt_s = now_s + SPACING_S
            self._changed.notify_all()
        # A credential with a cache of its own may return the token that is already in use.
        if known is not None and known.text == token.text and not failures:
            return None
        return TokenRefreshed(self._name, token.life_s, now_s - begun_s, failures)

    def _failed(self, begun_s: float, error: BaseException) -> Event | None:
        problem = explain(error, self._known_texts())
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
            if begun_s not in self._begun_s:
                return None  # forgotten, for another has succeeded since
            self._begun_s.remove(begun_s)
            self._failures += 1
            self._ended_badly += 1
            self._problem = problem
            remaining_s = self._remaining_s()
            delay_s = retry_delay_s(self._failures, remaining_s, self._chance())
            self._next_attempt_s = self._clock() + delay_s
            return TokenRefreshFailed(self._name, self._failures, problem, remaining_s, delay_s)

    def _known_texts(self) -> tuple[str, ...]:
        token = self._token
        return () if token is None else (token.text.reveal(),)
