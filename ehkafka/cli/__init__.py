"""The command line: `ehkafka` and its commands.

Uses the public façade (`ehkafka` and its public submodules) and nothing below it; the engine never imports
this room. Needs the extra `[cli]`; without it `main` says what to install.

What a user can type stands in `commands`, `inspect_commands`, `lag_commands`, `top_commands`, `dlq/`, `keys/`
and `offsets/`, with the `options`, `option_groups`, `spark_options` and `run_options` that several share;
`command_line` is what all have in common, `settings/` reads file, environment and flags, `app_path` finds the
app, `check_target` what to look at instead. `exits` turns errors into one message and an exit code; `unread`
is output that nobody reads, `columns` aligns it, `door` asks a running app. `reload/` starts an app again
when its code changes.

What they show: `log_setup` and `stop_notice` while an app runs (`members_view` in several processes,
`progress_view` while it is behind), `check`, `config` by `config_view`, `lag` by `lag_text`, `owners`, `tail`
with `tail_from` and `tail_text`; `top/` is a running app in the terminal.
"""
