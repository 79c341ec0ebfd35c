"""The app of `member` for `ehkafka run`: each process of a supervised member has a history of its own."""

from __future__ import annotations

import os

from tests.kit.checker.history_file import JsonLinesHistory
from tests.kit.member import add_handlers, make_app, options

app = make_app(JsonLinesHistory(f"{options().history}-{os.getpid()}.jsonl"))
add_handlers(app)
