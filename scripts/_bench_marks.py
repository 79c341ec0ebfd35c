"""What a measuring process says to the driver on its standard output, one word a line, before its result.

Between `BEGIN` and `END` is what counts: the driver looks at the CPUs there. Where there are several such
windows, `window` in the result is the number of the one that counts; else it is the last. `READY` instead of
both: the process waits for live records, and what counts lasts as long as they are sent.
"""

from __future__ import annotations

BEGIN, END, READY = "begin", "end", "ready"


def mark(word: str) -> None:
    """Say one of the words."""
    print(word, flush=True)
