"""Intake: the poll thread, sole owner of the `Consumer`, and the rules of its decisions.

`poll_loop` is the thread, `membership` its rebalance callbacks, `context` what its parts share, `route` the
way from topics to one handler, `owned` the partitions that are ours, with the numbers of their epochs and
which stand still; `poll_wait` (pure) says how long to wait and how long the loop stood. `backpressure` says
how much to take and what to pause, by `pace` and `flow` (pure): which partitions are stuck, what there is
room for, by `prefetch` whether the client would hold too much of what is not taken; `retention` (pure) knows
whose unread records are deleted. `resume` wakes the broker's thread, `by_hand` does what other threads ask of
this one, `repair` deals with positions outside of the log, `unreadable` with batches that cannot be read,
`waiting` with partitions whose beginning is not known yet, `max_age` with records that are too old,
`parked_budget` with too many that wait. `client_position` and `log_ends` know what of a log is no record,
`throttle` what brokers hold back, `contact` which answer, `watched_time` (pure) in how much of a time an
answer was looked for, `log_watch` whose log it is. `standstill` knows which partitions lag while nothing of
them arrives, and has their logs read; `watch` looks for idle ones and, by `stuck`, for what makes no
progress. `until_caught_up` ends a run by `caught_up` (pure), once it is where its
logs ended. `hook_threads` run the user's hooks, `returned` says what a stop returns. Where a partition begins
is the business of `positions`.
"""
