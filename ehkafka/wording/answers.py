"""Where the documentation answers an error or an event: one table, and the sentence that names the place.

The command line's last words, `ehkafka check` and the lines of the log end with it. By names and words, since
this room imports no other; a test compares them with the page, and with what there is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ehkafka.wording.sentence import ended

PAGE: Final = "docs/operate/troubleshooting.md"
"""Where the answers are. The documentation is not published yet: this is the page's path in a checkout."""


class Section(NamedTuple):
    """A heading of the page, by its anchor, and what it answers.

    `kinds` are classes of errors, kinds of events, and steps of `ehkafka check`, of which it answers those
    whose text has one of `words`, or all.
    """

    anchor: str
    kinds: str
    words: tuple[str, ...] = ("",)


# Errors that repeat what the client reports, by the name of its error.
_CLIENT: Final = (
    "EndpointError ConnectionProblem PartitionsWaiting CommitFailed ProducerNotOpened auth commit "
)
_SENDING: Final = "OutputRefused DeadLetterFailed MessageNotDelivered NotDeliveredError "
_CALLS: Final = "HandlerFailed HandlerFailedError "
# Of several that fit, the first one is meant.
ANSWERS: Final = (
    Section("the-group-fenced-this-process", "ConnectionProblem CommitFailed", ("fenced", "FENCED")),
    Section("the-host-name-is-not-found", _CLIENT, ("_RESOLVE (",)),
    Section("the-host-name-is-not-found", "dns"),
    Section("the-tls-connection-fails", _CLIENT, ("_SSL (", "SSL handshake")),
    Section("the-tls-connection-fails", "tls"),
    Section("there-is-no-token", "EndpointError", ("Entra ID token",)),
    Section("there-is-no-token", "TokenRefreshFailed token"),
    Section("the-broker-refuses-the-login", _CLIENT, ("_AUTHENTICATION (", "SASL_", "was refused")),
    Section(
        "the-broker-refuses-access",
        f"{_CLIENT} {_SENDING} topic group offsets",
        ("AUTHORIZATION_FAILED (", "denies this client access"),
    ),
    Section("the-connection-string-is-refused", "ConfigurationError", ("connection string",)),
    Section("the-connection-string-is-refused", "CredentialUnusable"),
    Section("throttled", _CLIENT + _SENDING, ("THROTTLING_QUOTA_EXCEEDED (", "POLICY_VIOLATION (")),
    Section("throttled", "Throttled OutputThrottled"),
    Section("the-group-has-no-committed-offset", "EndpointError", ("has no committed offset",)),
    Section("the-broker-cannot-be-reached", "PartitionsWaiting tcp kafka auth"),
    Section(
        "the-broker-cannot-be-reached",
        "ConnectionProblem",
        ("_TRANSPORT (", "_ALL_BROKERS_DOWN (", "_TIMED_OUT (", " has answered for "),
    ),
    Section("the-app-does-not-answer", "EndpointError", ("Is the app started with",)),
    Section(
        "the-broker-cannot-be-reached",
        "EndpointError",
        ("be reached", "does not answer", "does not report where"),
    ),
    Section("there-is-no-topic", "TopicNotFoundError topic"),
    Section("the-next-offset-is-gone", "OffsetGapError OffsetGap LogReplaced offsets"),
    Section("retention-deletes-unread-records", "RetentionNear UnreadDeleted"),
    Section("the-group-fenced-this-process", "FencedError"),
    Section("the-group-has-running-consumers", "GroupInUseError"),
    Section("the-group-continued-without-this-member", "PartitionLost StaleResult"),
    Section("the-commit-failed", "CommitFailed commit"),
    Section("finished-offsets-do-not-fit", "ProgressTruncated"),
    Section("start-is-missing", "ConfigurationError", ("start is missing", "is not a start position")),
    Section(
        "the-endpoint-is-missing", "ConfigurationError", ("The endpoint is missing", "The endpoint is given")
    ),
    Section(
        "there-is-no-such-setting",
        "ConfigurationError",
        (
            "Unknown setting",
            "there is no setting",
            "There is no variable",
            "there is no table",
            "has no option",
        ),
    ),
    Section(
        "the-app-cannot-be-imported",
        "ConfigurationError",
        ("There is no module", "There is no file", " imports ", "ehkafka.App at", "is not an ehkafka.App"),
    ),
    Section("a-payload-cannot-be-decoded", "ConfigurationError", ("no codec knows", "cannot be decoded")),
    Section("a-payload-cannot-be-decoded", _CALLS, ("the payload does not fit",)),
    Section("an-extra-is-missing", "MissingExtraError"),
    Section(
        "a-message-is-too-large",
        f"{_SENDING} {_CALLS} EndpointError ConfigurationError",
        ("MSG_SIZE_TOO_LARGE (", "bytes; the limit is"),
    ),
    Section("an-output-is-refused", _SENDING),
    Section("an-output-is-refused", _CALLS, ("OutputRefusedError",)),
    Section("no-producer-can-be-opened", "ProducerNotOpened"),
    Section("the-handler-failed", _CALLS),
    Section("a-call-does-not-return", "AttemptOverdue StuckReport UserCodeHangs MemberHung"),
    Section("the-run-has-not-caught-up", "UnfinishedError", ("Not caught up",)),
    Section("the-app-stopped-while-handlers-were-running", "UnfinishedError"),
    Section("a-process-died", "WorkerDiedError WorkerProcessDied MemberEnded MemberLoops"),
    Section("a-batch-cannot-be-read", "PartitionUnreadable"),
    Section("waiting-records-have-reached-their-limit", "ParkedBudgetFull"),
    Section("the-mirror-cannot-be-written", "MirrorUnavailable mirror"),
    Section("another-program-wrote-the-mirror", "MirrorContested MirrorForeign"),
    Section("nothing-was-done", "ActionRefusedError ActionRefused"),
    Section("an-unexpected-error", "EngineError"),
)


def answer_to(text: str, *kinds: str) -> str:
    """Return where the documentation answers a text of the first kind that has an answer; else nothing."""
    for kind in kinds:
        for anchor, answered, words in ANSWERS:
            if kind in answered.split() and any(word in text for word in words):
                return f"See {PAGE}#{anchor}."
    return ""


def with_answer(text: str, of: object) -> str:
    """Return the text of an error or an event, followed by where it is answered."""
    found = answer_to(text, *(kind.__name__ for kind in type(of).__mro__))
    return f"{ended(text)} {found}" if found else text
