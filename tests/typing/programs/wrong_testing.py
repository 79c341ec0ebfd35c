"""Tests of an app that are mistyped: each marked line is an error."""

from __future__ import annotations

import ehkafka
from ehkafka.testing import arun, make_batch, make_record, run

app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings")
def watch(record: ehkafka.Record) -> None:
    print(record.json()["door"])


def test_watch() -> None:
    with run("app.py:app"):  # error
        pass
    with run(app, stop=3):  # error
        pass
    with run(app) as t:
        t.send("readings", kee="home-1")  # error
        t.send(["readings"])  # error
        t.wait(timeout=3)  # error
        t.advance("30")  # error
        print(t.handeld)  # error
        print(t.handled[0].kee)  # error
        print(t.letters)
        print(t.letters("readings.dead")[0].why)  # error
        print(t.outputs())  # error


async def test_watch_on_a_loop() -> None:
    with arun(app):  # error
        pass
    async with arun(app, drain="none"):  # error
        pass
    async with arun(app) as t:
        await t.wayt()  # error


def test_handlers_alone() -> None:
    watch(b"")  # error
    watch(make_record(b"", kee="home-1"))  # error
    make_batch([b""])  # error
