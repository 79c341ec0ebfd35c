"""The app: what a program holds and tells, and the settings with the origin of each.

`app` is `App`, over `registration` (what comes before the start) and `configuration` (settings and endpoint,
and by `handler_options` those of handlers), which `effective` explains without secrets. Its `life` holds a
run, which it starts and stops, as members by `supervised`; `entering` knows who has entered it and what its
failure does to these, `lifespan` those who are tasks of an event loop; `web` is its HTTP side, `keys` are the
actions on keys. `decorators` and `keywords` are what type checkers are shown of handlers and settings.
"""

from __future__ import annotations

from ehkafka.app.app import App

__all__ = ["App"]
