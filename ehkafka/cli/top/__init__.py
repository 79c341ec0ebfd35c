"""`ehkafka top`: a running app in the terminal, over the HTTP interface that its page uses.

`start` finds the app and its token and checks that somebody answers; `here` runs an app that serves nowhere.
`asked` has the routes that are asked, on threads of textual's; `measures` makes rates and times of two
states, `rows` and `lines` make texts of one, all pure. `screen` is what is seen, `panes` its tables,
`colours` its colours; `ask` is the dialog before an action. Needs the extra `[top]`; `start` says what to
install. Nothing that came from the server is read as markup, and what steers a terminal is escaped.
"""
