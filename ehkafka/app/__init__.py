"""The app: what a program holds and tells, and the settings with the origin of each.

`app` is the façade's `App`, over `registration` (what comes before the start) and `configuration` (settings
and endpoint), which `effective` explains without secrets. `lifespan` starts it from an event loop,
`importing` refuses a start while a command imports the program. One run, from start to stop, is `run`'s.
"""

from __future__ import annotations

from ehkafka.app.app import App

__all__ = ["App"]
