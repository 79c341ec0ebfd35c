"""The command line: `ehkafka run` and `ehkafka demo`.

Uses the public façade (`ehkafka`, and `ehkafka.testing` for the demo's checker) and nothing below it; the
engine never imports this room. Needs the extra `[cli]`; without it `main` says what to install.

`commands` holds what a user can type, `app_path` finds the app, `exits` turns errors into one message and
an exit code, `log_setup` and `stop_notice` are what `run` shows, `demo/` is the demo.
"""
