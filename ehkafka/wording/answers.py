"""Where the documentation answers an error or an event: one table, and the sentence that names the place.

The command line's last words, `ehkafka check` and the lines of the log end with it. By names and words, since
this room imports no other; a test compares them with the page, and with what there is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ehkafka.wording.sentence import ended

PAGE: Final = "docs/operate/troubleshooting.md"
"""Where the answers are. The documentation is not published yet: this is the page's path in a checkout."""


class Answer(NamedTuple):
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
    Answer("the-group-fenced-this-process", "ConnectionProblem CommitFailed", ("fenced", "FENCED")),
    Answer("the-host-name-is-not-found", _CLIENT, ("_RESOLVE (",)),
    Answer("the-host-name-is-not-found", "dns"),
    Answer("the-tls-connection-fails", _CLIENT, ("_SSL (", "SSL handshake")),
    Answer("the-tls-connection-fails", "tls"),
    Answer("there-is-no-token", "EndpointError", ("Entra ID token",)),
    Answer("there-is-no-token", "TokenRefreshFailed token"),
    Answer("the-broker-refuses-the-login", _CLIENT, ("_AUTHENTICATION (", "SASL_", "was refused")),
    Answer(
        "the-broker-refuses-access",
        f"{_CLIENT} {_SENDING} topic group offsets",
        ("AUTHORIZATION_FAILED (", "may not be read"),
    ),
    Answer("the-connection-string-is-refused", "ConfigurationError", ("connection string",)),
    Answer("the-connection-string-is-refused", "CredentialUnusable"),
    Answer("throttled", _CLIENT + _SENDING, ("THROTTLING_QUOTA_EXCEEDED (", "POLICY_VIOLATION (")),
    Answer("throttled", "Throttled OutputThrottled"),
    Answer("the-group-has-no-committed-offset", "EndpointError", ("has no committed offset",)),
    Answer("the-broker-cannot-be-reached", "ConnectionProblem PartitionsWaiting tcp kafka auth"),
    Answer("the-app-does-not-answer", "EndpointError", ("Is the app started with",)),
    Answer("the-broker-cannot-be-reached", "EndpointError", ("be reached", "does not answer")),
    Answer("there-is-no-topic", "TopicNotFoundError topic"),
    Answer("the-next-offset-is-gone", "OffsetGapError OffsetGap LogReplaced offsets"),
    Answer("retention-deletes-unread-records", "RetentionNear UnreadDeleted"),
    Answer("the-group-fenced-this-process", "FencedError"),
    Answer("the-group-has-running-consumers", "GroupInUseError"),
    Answer("the-group-continued-without-this-member", "PartitionLost StaleResult"),
    Answer("the-commit-failed", "CommitFailed commit"),
    Answer("finished-offsets-do-not-fit", "ProgressTruncated"),
    Answer("start-is-missing", "ConfigurationError", ("start is missing", "is not a start position")),
    Answer(
        "the-endpoint-is-missing", "ConfigurationError", ("The endpoint is missing", "The endpoint is given")
    ),
    Answer(
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
    Answer(
        "the-app-cannot-be-imported",
        "ConfigurationError",
        ("There is no module", "There is no file", " imports ", "ehkafka.App at", "is not an ehkafka.App"),
    ),
    Answer("a-payload-cannot-be-decoded", "ConfigurationError", ("no codec knows", "cannot be decoded")),
    Answer("a-payload-cannot-be-decoded", _CALLS, ("the payload does not fit",)),
    Answer("an-extra-is-missing", "MissingExtraError"),
    Answer("a-message-is-too-large", _SENDING + _CALLS, ("MSG_SIZE_TOO_LARGE (", "bytes; the limit is")),
    Answer("an-output-is-refused", _SENDING),
    Answer("an-output-is-refused", _CALLS, ("OutputRefusedError",)),
    Answer("no-producer-can-be-opened", "ProducerNotOpened"),
    Answer("the-handler-failed", _CALLS),
    Answer("a-call-does-not-return", "AttemptOverdue StuckReport UserCodeHangs MemberHung"),
    Answer("the-run-has-not-caught-up", "UnfinishedError", ("Not caught up",)),
    Answer("the-app-stopped-while-handlers-were-running", "UnfinishedError"),
    Answer("a-process-died", "WorkerDiedError WorkerProcessDied MemberEnded MemberLoops"),
    Answer("a-batch-cannot-be-read", "PartitionUnreadable"),
    Answer("waiting-records-have-reached-their-limit", "ParkedBudgetFull"),
    Answer("the-mirror-cannot-be-written", "MirrorUnavailable mirror"),
    Answer("another-program-wrote-the-mirror", "MirrorContested MirrorForeign"),
    Answer("nothing-was-done", "ActionRefusedError ActionRefused"),
    Answer("an-unexpected-error", "EngineError"),
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
