"""The command line: `ehkafka` and its commands.

Uses the public façade (`ehkafka` and its public submodules) and nothing below it; the engine never imports
this room. Needs the extra `[cli]`; without it `main` says what to install.

`commands` is the tree of `MODULES`; each command is a file, with its options, its help and what it does
(`run` has `run_spark`, `run_view` and `reload/`, too). `command_line` is what all have in common, with
`options` that several share.

`settings/` reads file, environment and flags, `app_path` finds the app, `target` what to look at instead.
`exits` turns errors into one message and an exit code, `log_setup` is the log of a run, `output` what is
written to stdout; `door` asks a running app, `progress` is a bar or lines.
"""

from typing import Final

MODULES: Final = {
    "run": ("run",),
    "check": ("check",),
    "config": ("config",),
    "produce": ("produce",),
    "tail": ("tail",),
    "lag": ("lag",),
    "owners": ("owners",),
    "groups": ("groups",),
    "topics": ("topics",),
    "top": ("top.start",),
    "dlq": ("dlq",),
    "keys": ("keys",),
    "offsets": ("offsets.moves", "offsets.checkpoints"),
    "export": ("export.command",),
}
"""Each command, in the order of the help, with its modules; the first one has the tree that it is in."""
