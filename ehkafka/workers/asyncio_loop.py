"""Which event loop asyncio workers run on: uvloop's where it is installed, else the standard one."""

from __future__ import annotations

import asyncio
import importlib


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop. uvloop comes with the extra `ehkafka[uvloop]`."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
