"""The typed catalogue of what an app tells about itself.

One frozen dataclass per kind of event, grouped by what it is about; each is rare beside records (per
assignment, commit, pause or failure, never per record). The engine emits them, the telemetry thread counts
and logs them and hands them to hooks. Pure values: importing this room starts nothing.

`event` is what all have in common, with hooks and counters; the groups are `app`, `commit`, `connection`,
`consumer`, `credential`, `dead_letter`, `handler`, `mirror`, `partition` and `record`. `history` is the
protocol of the checker's record of a run.

Fields are named as in the vocabulary of `docs/concepts.md`; units come last. A new kind goes into the file of
its group, is named here, and gets a sentence in `telemetry`.
"""

from __future__ import annotations

from ehkafka.events.app import (
    AppStarted,
    AppStopped,
    AppStopping,
    BatchesFinished,
    Draining,
    GroupReset,
    GroupWatched,
    RecordsLeft,
    SettingAdvice,
)
from ehkafka.events.commit import (
    CommitAcknowledged,
    CommitFailed,
    CommitPaceBounded,
    ProgressIgnored,
    ProgressRestored,
    ProgressTruncated,
)
from ehkafka.events.connection import ClientLogged, ConnectionProblem, Throttled
from ehkafka.events.consumer import DropInDeviated, MarksMissing
from ehkafka.events.credential import (
    CredentialRotated,
    CredentialUnusable,
    TokenRefreshed,
    TokenRefreshFailed,
)
from ehkafka.events.dead_letter import (
    DeadLetterFailed,
    DeadLetterProducerPlain,
    DeadLetterProducerReplaced,
    RecordDeadLettered,
)
from ehkafka.events.event import CounterName, Event, Hook
from ehkafka.events.handler import (
    AttemptOverdue,
    HandlerResized,
    StuckReport,
    UserCodeFailed,
    UserCodeHangs,
    UserCodeLeft,
    WorkerProcessDied,
    WorkersLogNothing,
)
from ehkafka.events.mirror import (
    MirrorBehind,
    MirrorContested,
    MirrorForeign,
    MirrorRecovered,
    MirrorUnavailable,
    MirrorUsed,
    MirrorWritten,
)
from ehkafka.events.partition import (
    LogReplaced,
    OffsetGap,
    ParkedBudgetFull,
    PartitionAssigned,
    PartitionLost,
    PartitionPaused,
    PartitionResumed,
    PartitionRevoked,
)
from ehkafka.events.record import (
    BatchRaised,
    DeferredAnswerDropped,
    HandlerFailed,
    RecordRetried,
    RecordSkipped,
    RecordsTooOld,
    StaleResult,
)

__all__ = [
    "AppStarted",
    "AppStopped",
    "AppStopping",
    "AttemptOverdue",
    "BatchRaised",
    "BatchesFinished",
    "ClientLogged",
    "CommitAcknowledged",
    "CommitFailed",
    "CommitPaceBounded",
    "ConnectionProblem",
    "CounterName",
    "CredentialRotated",
    "CredentialUnusable",
    "DeadLetterFailed",
    "DeadLetterProducerPlain",
    "DeadLetterProducerReplaced",
    "DeferredAnswerDropped",
    "Draining",
    "DropInDeviated",
    "Event",
    "GroupReset",
    "GroupWatched",
    "HandlerFailed",
    "HandlerResized",
    "Hook",
    "LogReplaced",
    "MarksMissing",
    "MirrorBehind",
    "MirrorContested",
    "MirrorForeign",
    "MirrorRecovered",
    "MirrorUnavailable",
    "MirrorUsed",
    "MirrorWritten",
    "OffsetGap",
    "ParkedBudgetFull",
    "PartitionAssigned",
    "PartitionLost",
    "PartitionPaused",
    "PartitionResumed",
    "PartitionRevoked",
    "ProgressIgnored",
    "ProgressRestored",
    "ProgressTruncated",
    "RecordDeadLettered",
    "RecordRetried",
    "RecordSkipped",
    "RecordsLeft",
    "RecordsTooOld",
    "SettingAdvice",
    "StaleResult",
    "StuckReport",
    "Throttled",
    "TokenRefreshFailed",
    "TokenRefreshed",
    "UserCodeFailed",
    "UserCodeHangs",
    "UserCodeLeft",
    "WorkerProcessDied",
    "WorkersLogNothing",
]
