"""The command line: `ehkafka` and its commands.

Uses the public façade (`ehkafka` and its public submodules) and nothing below it; the engine never imports
this room. Needs the extra `[cli]`; without it `main` says what to install.

`commands` is the tree; each command is a file, with its options, its help and what it does: `run` (with
`run_spark`, `run_view` and `reload/`), `check`, `config`, `tail`, `lag`, `owners`, `dlq`, `keys`, `offsets/`
and `top/`. `command_line` is what all have in common, with `options` that several share.

`settings/` reads file, environment and flags, `app_path` finds the app, `target` what to look at instead.
`exits` turns errors into one message and an exit code, `log_setup` is the log of a run, `output` what is
written to stdout; `door` asks a running app.
"""
