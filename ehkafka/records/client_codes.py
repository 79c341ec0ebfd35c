"""The codes of librdkafka's own errors, which the client has under names with an underscore. Pure."""

from __future__ import annotations

from typing import Final


class ClientCode:
    """Codes of librdkafka's own errors: `error.code() == ClientCode.TRANSPORT`."""

    BAD_MSG: Final = -199
    BAD_COMPRESSION: Final = -198
    DESTROY: Final = -197
    FAIL: Final = -196
    TRANSPORT: Final = -195
    CRIT_SYS_RESOURCE: Final = -194
    RESOLVE: Final = -193
    MSG_TIMED_OUT: Final = -192
    PARTITION_EOF: Final = -191
    UNKNOWN_PARTITION: Final = -190
    UNKNOWN_TOPIC: Final = -188
    ALL_BROKERS_DOWN: Final = -187
    INVALID_ARG: Final = -186
    TIMED_OUT: Final = -185
    QUEUE_FULL: Final = -184
    SSL: Final = -181
    WAIT_COORD: Final = -180
    STATE: Final = -172
    NOT_IMPLEMENTED: Final = -170
    AUTHENTICATION: Final = -169
    NO_OFFSET: Final = -168
    UNSUPPORTED_FEATURE: Final = -165
    PURGE_QUEUE: Final = -152
    PURGE_INFLIGHT: Final = -151
    FATAL: Final = -150
    GAPLESS_GUARANTEE: Final = -148
    FENCED: Final = -144
    ASSIGNMENT_LOST: Final = -142
    AUTO_OFFSET_RESET: Final = -140
    LOG_TRUNCATION: Final = -139
