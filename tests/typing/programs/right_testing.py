"""Tests of an app, as users write them."""

from __future__ import annotations

from typing import assert_type

import ehkafka
from ehkafka.testing import AppTest, arun, make_batch, make_record, run

app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings", on_failure=ehkafka.DeadLetter("readings.dead"))
def watch(record: ehkafka.Record) -> None:
    print(record.json()["door"])


@app.batch_handler("doors")
def store(batch: ehkafka.Batch) -> None:
    print(len(batch))


def test_watch() -> None:
    with run(app, topics={"readings": 2}, stop_s=3, max_age=None) as t:
        assert_type(t, AppTest)
        t.send("readings", key="home-1", value={"door": "open"}, headers={"kind": "door"})
        t.wait()
        t.advance(30)
        assert [one.key for one in t.handled.by("watch")] == ["home-1"]
        assert [letter.reason for letter in t.letters("readings.dead")] == []


async def test_watch_on_a_loop() -> None:
    async with arun(app) as t:
        t.send("readings", b"{}")
        await t.wait(timeout_s=5)


def test_handlers_alone() -> None:
    watch(make_record({"door": "open"}, key="home-1"))
    store(make_batch([make_record(b"")]))
