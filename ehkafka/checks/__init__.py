"""Looks at a broker from outside: `run_checks` probes the way to it, `TopicReader` reads a topic.

Neither joins a group or moves a position that is in use. All that they ever write is the commit of the
step `commit`, to a group of our own name, and a blob of our own next to the mirror. `TopicWriter` writes
records.

`run` says which steps there are and what each needs, and goes through them, each on a thread of its own and
never longer than its time-out. The probes are functions named after their steps: `network` has dns, tcp and
tls, `kafka` its own (by `hello`), `broker` topic and partitions, `login` settings, token, auth and clock,
`group` group, offsets and commit, `mirror` its own. What a probe found is a `CheckResult` (`result`), out of
which `cleaning` has struck secrets and control characters. `target` is what they look at, `inspection` what
the probes of one run share, `reach` the way to a topic for others. `topic_reader` reads for `tail`,
`topic_writer` writes for `produce`. Called by the command line, on the main thread. A further probe is a
function here, an entry of `run.PROBES` and a step there. The room itself names nothing: who only reaches a
topic loads no probe more.
"""
