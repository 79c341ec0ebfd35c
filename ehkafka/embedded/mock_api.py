"""ctypes declarations for the mock cluster inside librdkafka.

Responsible for finding the library and for one table that types every function used. It
must never keep state, decide anything or be called from outside `ehkafka.testing`: its
caller is `mock_cluster`, on whatever thread the test runs.

librdkafka calls this interface experimental, so a missing function is an expected case:
it is reported when it is needed, not when the library is loaded.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int16, c_int32, c_int64, c_size_t, c_void_p
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import confluent_kafka
from confluent_kafka import cimpl

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PRODUCER: Final = 0
"""`RD_KAFKA_PRODUCER`: the kind of client a cluster is hung on. It never produces."""


def function(name: str) -> Callable[..., Any]:
    """Return librdkafka's function `name`, typed; raise if this librdkafka has no such function."""
    try:
        found: Callable[..., object] = getattr(_library(), name)
    except AttributeError as missing:
        version = confluent_kafka.libversion()[0]
        raise ConfigurationError(
            f"The embedded broker needs {name}(), which librdkafka {version} does not have. "
            "Upgrade confluent-kafka (2.15 and later have all needed functions)."
        ) from missing
    return found


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    # A lookup in the extension module also searches the libraries it was linked with, so
    # this is the very librdkafka that the clients use, wherever it was installed from.
    try:
        library = ctypes.CDLL(cimpl.__file__)
        _ = library.rd_kafka_mock_cluster_new
    except (OSError, AttributeError) as missing:
        raise ConfigurationError(
            f"The librdkafka of {cimpl.__file__} has no mock cluster, which the embedded broker needs. "
            "Install confluent-kafka from its wheel (pip install --only-binary :all: confluent-kafka)."
        ) from missing
    for name, (result, arguments) in _SIGNATURES.items():
        if hasattr(library, name):
            declared = getattr(library, name)
            declared.restype = result
            declared.argtypes = arguments
    return library


_HANDLE = c_void_p  # rd_kafka_t, rd_kafka_conf_t, rd_kafka_mock_cluster_t, rd_kafka_mock_request_t
_ERROR = c_int  # rd_kafka_resp_err_t

_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    # The client that a cluster hangs on.
    "rd_kafka_conf_new": (_HANDLE, []),
    "rd_kafka_conf_destroy": (None, [_HANDLE]),
    "rd_kafka_conf_set_log_cb": (None, [_HANDLE, c_void_p]),
    "rd_kafka_new": (_HANDLE, [c_int, _HANDLE, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [_HANDLE]),
    # The cluster.
    "rd_kafka_mock_cluster_new": (_HANDLE, [_HANDLE, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [_HANDLE]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [_HANDLE]),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [_HANDLE, c_int32]),
    "rd_kafka_mock_coordinator_set": (_ERROR, [_HANDLE, c_char_p, c_char_p, c_int32]),
    # Topics.
    "rd_kafka_mock_topic_create": (_ERROR, [_HANDLE, c_char_p, c_int, c_int]),
    "rd_kafka_mock_topic_delete": (_ERROR, [_HANDLE, c_char_p]),
    "rd_kafka_mock_topic_set_error": (None, [_HANDLE, c_char_p, _ERROR]),
    "rd_kafka_mock_partition_set_leader": (_ERROR, [_HANDLE, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_partition_delete_records": (_ERROR, [_HANDLE, c_char_p, c_int32, c_int64]),
    # Answers to requests.
    "rd_kafka_mock_push_request_errors_array": (
        None,
        [_HANDLE, c_int16, c_size_t, ctypes.POINTER(_ERROR)],
    ),
    "rd_kafka_mock_clear_request_errors": (None, [_HANDLE, c_int16]),
    # Variadic: (error, rtt_ms) pairs follow, each a C int.
    "rd_kafka_mock_broker_push_request_error_rtts": (_ERROR, [_HANDLE, c_int32, c_int16, c_size_t]),
    "rd_kafka_mock_broker_error_stack_cnt": (
        _ERROR,
        [_HANDLE, c_int32, c_int16, ctypes.POINTER(c_size_t)],
    ),
    "rd_kafka_mock_set_apiversion": (_ERROR, [_HANDLE, c_int16, c_int16, c_int16]),
    # Brokers.
    "rd_kafka_mock_broker_set_down": (_ERROR, [_HANDLE, c_int32]),
    "rd_kafka_mock_broker_set_up": (_ERROR, [_HANDLE, c_int32]),
    "rd_kafka_mock_broker_set_rtt": (_ERROR, [_HANDLE, c_int32, c_int]),
    "rd_kafka_mock_broker_set_host_port": (None, [_HANDLE, c_int32, c_char_p, c_int]),
    # What was asked.
    "rd_kafka_mock_start_request_tracking": (None, [_HANDLE]),
    "rd_kafka_mock_get_requests": (ctypes.POINTER(_HANDLE), [_HANDLE, ctypes.POINTER(c_size_t)]),
    "rd_kafka_mock_request_destroy_array": (None, [ctypes.POINTER(_HANDLE), c_size_t]),
    "rd_kafka_mock_request_id": (c_int32, [_HANDLE]),
    "rd_kafka_mock_request_api_key": (c_int16, [_HANDLE]),
    "rd_kafka_mock_request_timestamp": (c_int64, [_HANDLE]),
}
