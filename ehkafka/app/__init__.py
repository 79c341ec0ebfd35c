"""The app: what a program holds and tells, and the settings with the origin of each.

`app` is the façade's `App`, over `registration` (what comes before the start; `written` has the topics it
writes to), `configuration` (settings and endpoint, and by `handler_options` those of handlers), which
`effective` explains without secrets, `shown` (what it shows of its run), `keys` (a hand on each key), `web`
(its HTTP side), `producing` (what it sends for no record), `on_spark` and `supervised` (a run in several
processes). `entering` knows who has entered it, `on_end` what its failure does to these, and `lifespan` those
who are tasks of an event loop; `in_test` lends it to a test. `decorators` and `keywords` are what type
checkers are shown of handlers and settings. One run, from start to stop, is `run`'s.
"""

from __future__ import annotations

from ehkafka.app.app import App
from ehkafka.run.importing import importing

__all__ = ["App", "importing"]
