"""The app under test: it says nothing of tests. See `test_doors.py`."""

import ehkafka

app = ehkafka.App(group="doors", start="earliest")


@app.handler(
    "readings",
    to="alerts",
    retry=ehkafka.Retry(attempts=3, first_s=20.0, on=(ConnectionError,)),
    on_failure=ehkafka.DeadLetter("readings.dead"),
)
def watch(record: ehkafka.Record) -> dict[str, str] | None:
    door = record.json()["door"]
    if door not in {"open", "shut"}:
        raise ValueError("no such state of a door")
    if door == "open" and not guard_answers():
        raise ConnectionError("the guard does not answer")
    return {"alert": "a door is open"} if door == "open" else None


def guard_answers() -> bool:
    """Ask the guard: a test puts another function in this place."""
    return True
