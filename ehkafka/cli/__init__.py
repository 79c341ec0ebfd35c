"""The command line: `ehkafka run`, `check`, `tail`, `config` and `demo`.

Uses the public façade (`ehkafka`, its public submodules, and `ehkafka.testing` for the demo's checker) and
nothing below it; the engine never imports this room. Needs the extra `[cli]`; without it `main` says what to
install.

`commands` holds what a user can type, `app_path` finds the app, `exits` turns errors into one message and
an exit code, `log_setup` and `stop_notice` are what `run` shows, `settings_…` read file and environment,
`check…` and `tail…` show what `ehkafka.checks` finds, `demo/` is the demo.
"""
