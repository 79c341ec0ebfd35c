"""The source's options, read and checked together. Pure.

The names are the JVM connector's where it has one, in upper or lower case, as Spark gives them. What is
unknown, conflicting or unsafe is refused by name with the next step, before anything is opened. The
result is frozen, picklable and holds no secret; it travels to every task. Called on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.loss import Words
from ehkafka.ranges.options import NAMES as COLUMNS
from ehkafka.ranges.options import TIMEOUT_S, WITHOUT_HEADERS, RangeOptions, chosen_columns
from ehkafka.ranges.places import EARLIEST, AtGroup, AtOffsets, AtTime, AtWord, Place, Start
from ehkafka.spark import secrets
from ehkafka.spark.option_names import OptionNames
from ehkafka.spark.secrets import OWN_GROUP, NamedEndpoint
from ehkafka.spark.source import option_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.ranges.places import Word

# The JVM connector's default.
DELAY_S_MAX = 900.0
_LEAST, _DELAY = "minOffsetsPerTrigger", "maxTriggerDelay"
# Where a stream begins and where a batch ends.
_OFFSETS = '{"readings": {"0": 23, "1": -2}} (-2 is earliest, -1 latest)'
_TIMES = '{"readings": {"0": 1767225600000}}'
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STRATEGY = "startingOffsetsByTimestampStrategy"
_WITHOUT_COMMIT = "startingOffsetsWithoutCommit"
_UNNAMED = "startingOffsetsUnnamed"

_OPTIONS = (
    *secrets.WAYS,
    *secrets.ADDITIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    *_STARTS,
    _STRATEGY,
    _WITHOUT_COMMIT,
    _UNNAMED,
    *_ENDS,
    "groupId",
    "commitOffsets",
    "maxOffsetsPerTrigger",
    _LEAST,
    _DELAY,
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "tasks",
    "splitPartitions",
    "kafkaConsumer.pollTimeoutMs",
)
# Options of the JVM connector that are refused, and why.
_REFUSED: Mapping[str, str] = {
    "minPartitions": "it would hand one partition to several tasks and so lose its order; the number of"
    " tasks is the option tasks, and splitPartitions=true allows cuts where order does not matter",
    "maxRecordsPerPartition": "it would hand one partition to several tasks and so lose its order;"
    " bound the batch with maxOffsetsPerTrigger",
    "groupIdPrefix": "no group is made up here; groupId names the one whose commits are the start",
    "fetchOffset.numRetries": "librdkafka retries by itself; kafkaConsumer.pollTimeoutMs bounds it",
    "fetchOffset.retryIntervalMs": "librdkafka retries by itself",
    "kafkaConsumer.useDeprecatedOffsetFetching": "there is one way here",
    "enable.auto.commit": "commitOffsets=true commits what finished batches have read",
}
# Options of Spark's other sources, and options that have another name here.
_MEANT: Mapping[str, str] = {
    "path": "load() takes no path: name the topics with subscribe",
    "checkpointlocation": "it belongs to writeStream, whose query keeps it",
    "provider": "no table can be made of it: use spark.read or spark.readStream and createOrReplaceTempView",
    "topic": "name the topics to read with subscribe",
    "topics": "name the topics with subscribe",
    "bootstrap.servers": "did you mean kafka.bootstrap.servers?",
    "bootstrapservers": "did you mean kafka.bootstrap.servers?",
    "group.id": "did you mean groupId?",
    "auto.offset.reset": "did you mean startingOffsets?",
}
NAMES = OptionNames(_OPTIONS, _REFUSED, _MEANT)
OF_A_QUERY = Words(
    client=OWN_GROUP,
    logger="ehkafka.spark",
    reader="The query",
    unit="This batch",
    knows="The checkpoint knows",
    allowed="failOnDataLoss=false",
    records="To continue without them, set failOnDataLoss=false; to begin elsewhere, give the query a new"
    " checkpointLocation and startingOffsets.",
    partitions="To continue without them, set failOnDataLoss=false.",
    logs="To read the new log from its beginning, set failOnDataLoss=false; to begin elsewhere, give the"
    " query a new checkpointLocation and startingOffsets.",
    slow="Spark tries the task again; if the broker is only slow, raise kafkaConsumer.pollTimeoutMs.",
    broken="If the batch stays broken, begin after it with a new checkpoint.",
    unnamed="name every partition (-2 is earliest, -1 latest). Where a query begins,"
    " startingOffsetsUnnamed=earliest or latest covers the rest.",
    later="Give an earlier moment, or startingOffsetsByTimestampStrategy=latest.",
    uncommitted="Commit an offset there, or give startingOffsetsWithoutCommit=earliest or latest.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(RangeOptions):
    """Everything a reader needs to know. `start` and `end` are None for the default of the query's kind."""

    endpoint: NamedEndpoint
    # These, `pattern` or `assigned`; without any the connection string names the topic.
    topics: tuple[str, ...] = ()
    start: Start | None = None
    end: Place | None = None
    # Whether the group gets commits of what finished batches have read.
    commits: bool = False
    limit_records: int | None = None
    # A batch of fewer records waits for more, but no longer than this.
    least_records: int = 0
    delay_s_max: float = DELAY_S_MAX
    # The engine has other ways than a query.
    words: Words = OF_A_QUERY
    # The engine has named all partitions that there were: others were added since, and begin with their logs.
    grows: bool = False
    columns: tuple[str, ...] = WITHOUT_HEADERS
    # None: a task for each partition.
    tasks: int | None = None
    split: bool = False

    def broker(self) -> Endpoint:
        """Return this process's way to the broker. Raises `ConfigurationError`."""
        return self.endpoint.endpoint()

    def named_topics(self) -> tuple[str, ...]:
        """Return the topics' names, none of a pattern. Raises `ConfigurationError` without either."""
        if self.pattern is not None:
            return ()
        if self.assigned:
            return tuple(sorted({one.topic for one in self.assigned}))
        if self.topics:
            return tuple(sorted(self.topics))
        topic = self.broker().default_topic
        if topic is None:
            raise ConfigurationError("No option names a topic: give subscribe, or assign.")
        return (topic,)


def options_from(mapping: Mapping[str, str]) -> SourceOptions:
    """Return the options of a query. Raises `ConfigurationError` that names the option and the next step."""
    options = NAMES.in_our_spelling(mapping)
    group = _group(options)
    topics = option_text.topics("subscribe", options["subscribe"]) if "subscribe" in options else ()
    assigned = option_text.partitions("assign", options["assign"]) if "assign" in options else ()
    if len(ways := [name for name in ("subscribe", "subscribePattern", "assign") if name in options]) > 1:
        raise ConfigurationError(f"Options {' and '.join(ways)} exclude each other: keep one.")
    tasks, split = _count(options, "tasks"), _flag(options, "splitPartitions", default=False)
    if split and tasks is None:
        # Otherwise it would do nothing, silently: each partition is one task then.
        raise ConfigurationError(
            "Option splitPartitions needs the number of tasks: add the option tasks, or leave "
            "splitPartitions out."
        )
    commits = _flag(options, "commitOffsets", default=False)
    if commits and group is None:
        raise ConfigurationError(
            "Option commitOffsets needs a group for its commits: add the option groupId, or leave "
            "commitOffsets out."
        )
    return SourceOptions(
        endpoint=secrets.named_endpoint(options),
        topics=topics,
        pattern=option_text.pattern("subscribePattern", options.get("subscribePattern")),
        assigned=assigned,
        start=_start_from(options, group),
        end=_end_from(options),
        group=group,
        commits=commits,
        limit_records=_count(options, "maxOffsetsPerTrigger"),
        least_records=_least_records(options),
        delay_s_max=option_text.duration_s(_DELAY, options[_DELAY]) if _DELAY in options else DELAY_S_MAX,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        columns=_columns(options),
        tasks=tasks,
        split=split,
        timeout_s=(_count(options, "kafkaConsumer.pollTimeoutMs") or TIMEOUT_S * 1000) / 1000,
    )


def _group(options: dict[str, str]) -> str | None:
    """Return the group, by our name or the JVM connector's, and take it out of the client's properties."""
    given = options.pop("kafka.group.id", None)
    group = options.get("groupId", given)
    if given is not None and given != group:
        raise ConfigurationError("Options groupId and kafka.group.id differ: keep groupId.")
    return group


def _least_records(options: Mapping[str, str]) -> int:
    least, most = _count(options, _LEAST), _count(options, "maxOffsetsPerTrigger")
    if least is None and _DELAY in options:
        raise ConfigurationError(
            f"Option {_DELAY} works only with {_LEAST}: give both, or leave {_DELAY} out."
        )
    if least is not None and most is not None and least > most:
        raise ConfigurationError(
            f"Option {_LEAST}={least} is above maxOffsetsPerTrigger={most}, so no batch can fulfil both: "
            f"lower {_LEAST}."
        )
    return least or 0


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _flag(options, "includeHeaders", default=False)
    if "columns" not in options:
        return COLUMNS if with_headers else WITHOUT_HEADERS
    columns = chosen_columns(option_text.names("columns", options["columns"]))
    if with_headers and "headers" not in columns:
        raise ConfigurationError(
            "Option includeHeaders needs the column headers, but the option columns "
            "leaves it out: add headers to columns, or leave includeHeaders out."
        )
    return columns


def _start_from(options: Mapping[str, str], group: str | None) -> Start | None:
    """Return where the query begins, None when nothing is said."""
    name = _only_one(options, _STARTS)
    place = None if name is None else _start_of(name, options, group)
    for addition, kind, belongs in (
        (_STRATEGY, AtTime, "startingTimestamp and startingOffsetsByTimestamp"),
        (_WITHOUT_COMMIT, AtGroup, "startingOffsets=group"),
        (_UNNAMED, AtOffsets, f"offsets of single partitions, such as startingOffsets={_OFFSETS}"),
    ):
        if addition in options and not isinstance(place, kind):
            raise ConfigurationError(f"Option {addition} works only with {belongs}: leave it out.")
    return place


def _start_of(name: str, options: Mapping[str, str], group: str | None) -> Start:
    text = options[name]
    if name != "startingOffsets":
        strategy = option_text.word(_STRATEGY, options.get(_STRATEGY, "error"), "error", "latest")
        return _time(name, text, cast("Literal['error', 'latest']", strategy))
    if text.lower() == "group":
        return _group_start(options, group)
    place = _place(name, text)
    if not isinstance(place, AtOffsets) or _UNNAMED not in options:
        return place
    word = option_text.word(_UNNAMED, options[_UNNAMED], "earliest", "latest")
    return replace(place, otherwise=cast("Word", word))


def _end_from(options: Mapping[str, str]) -> Place | None:
    """Return where a batch query ends, None when nothing is said."""
    name = _only_one(options, _ENDS)
    if name is None:
        return None
    if name != "endingOffsets":
        # Records newer than all there are: the end is the end.
        return _time(name, options[name], "latest")
    place = _place(name, options[name])
    if place == AtWord("earliest") or (
        isinstance(place, AtOffsets) and any(offset == EARLIEST for _, offset in place.offsets)
    ):
        raise ConfigurationError("Option endingOffsets: a query that ends at earliest reads nothing.")
    return place


def _group_start(options: Mapping[str, str], group: str | None) -> AtGroup:
    if group is None:
        raise ConfigurationError(
            "Option startingOffsets=group starts at the commits of a group, and no group is named: add the "
            "option groupId."
        )
    given = options.get(_WITHOUT_COMMIT, "earliest")
    word = option_text.word(_WITHOUT_COMMIT, given, "earliest", "latest", "fail")
    return AtGroup(group, None if word == "fail" else AtWord(cast("Word", word)))


def _place(name: str, text: str) -> AtWord | AtOffsets:
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return AtWord(cast("Word", word))
    if not word.startswith("{"):
        more = ", group" if name == "startingOffsets" else ""
        raise option_text.wrong(name, text, f"give earliest, latest{more} or JSON, such as {_OFFSETS}")
    return AtOffsets(option_text.by_partition(name, text, _OFFSETS, EARLIEST))


def _time(name: str, text: str, after_last: Literal["error", "latest"]) -> AtTime:
    if name.endswith("ByTimestamp"):
        moments = option_text.moments_by_partition(name, text, _TIMES)
        return AtTime(by_partition=moments, after_last=after_last)
    return AtTime(option_text.moment_ms(name, text), after_last=after_last)


def _only_one(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    given = [name for name in names if name in options]
    if len(given) > 1:
        raise ConfigurationError(f"Options {' and '.join(given)} contradict each other: keep one.")
    return given[0] if given else None


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    return option_text.flag(name, options[name]) if name in options else default


def _count(options: Mapping[str, str], name: str) -> int | None:
    return option_text.count(name, options[name]) if name in options else None
