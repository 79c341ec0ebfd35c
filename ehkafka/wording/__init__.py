"""What users read: how a sentence ends, which call does not fit, where their own code raised.

Values of the ground: any room may use them. `sentence` puts texts together, `line` makes them safe for a line
of the log, `calling` turns a wrong call into one sentence with the right way to write it, `error_stack` finds
the user's line of an error, `live_stack` where code is that runs, `extras` says how to install what is
missing, `secrets` strikes out what looks like one, `answers` finds where the documentation
answers an error or an event.
"""

from __future__ import annotations

from ehkafka.wording.sentence import clock_time, counted, ended, seconds

__all__ = ["clock_time", "counted", "ended", "seconds"]
