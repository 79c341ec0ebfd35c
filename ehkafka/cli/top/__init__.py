"""`ehkafka top`: a running app in the terminal, over the HTTP interface that its page uses.

`start` finds the app and its token and checks that it answers; `here` runs an app that serves nowhere.
Questions go by `cli/door`, on threads of textual's; `rows` makes texts of a state, pure. `screen` is what is
seen: the panels that the server describes, with keys and letters; `panes` are its tables,
`colours` its colours, `ask` the dialog before an action. Needs the extra `[top]`; `start` says what to
install. Nothing that came from the server is read as markup, and what steers a terminal is escaped.
"""
