"""W11: the Spark source and writer compared with the JVM connector, as it is and tuned."""

from __future__ import annotations

from _bench_row import FILLED_RECORDS, Row, Side, Topic

TOPIC = "homes"
SPARK_TOPICS = {TOPIC: Topic(10_000, json=True)}
# What it is called, the figure's name, whose it is, and the goals: of the defaults and tuned.
WORK = [
    (", into noop, one batch", "one_batch", "ehkafka", "≥ 1.4", "≥ 0.87"),
    (", into noop, one batch of `value` alone", "value", "ehkafka", "≥ 1.4", "≥ 0.95"),
    (", into noop, five batches", "batches", "ehkafka", "≥ 1.4", "≥ 0.92"),
    (", `from_json`, count by home", "count", "ehkafka", "≥ 1.4", "≥ 0.85"),
    (", Python handler, both in `mapInArrow`", "handler", "ehkafka", "≥ 1.4", "≥ 1.0"),
    (", Python handler, `run_on_spark` compared with `mapInArrow`", "handler", "engine", "≥ 1.4", "≥ 1.0"),
    (" writer", "write", "ehkafka", "≥ 1.3", "≥ 0.75"),
]


def spark_rows() -> list[Row]:
    """Return W11's rows."""

    def row(name: str, work: str, ours: str, rival: str, goal: str) -> Row:
        return Row(
            f"W11 Spark{name}, JVM connector {'tuned' if rival == 'jvm_tuned' else 'as it is'}",
            Side("spark_writers" if work == "write" else "spark_sources", TOPIC, {"records": FILLED_RECORDS}),
            None,
            figure=f"{work}_{ours}",
            limit_figure=f"{work}_{rival}",
            cpu=f"{work}_{ours}_cpu_s",
            limit_cpu=f"{work}_{rival}_cpu_s",
            goal=goal,
            warm_up=False,
            shared=True,
        )

    return [
        row(name, work, ours, rival, goal)
        for name, work, ours, *goals in WORK
        for rival, goal in zip(("jvm", "jvm_tuned"), goals, strict=True)
    ]
