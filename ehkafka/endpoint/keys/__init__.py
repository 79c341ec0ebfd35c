"""Connection strings and their keys, which may be rotated while clients run.

`connection_string` is the value that hides its key, `source` the file or callable it comes from, `rotation`
the last good one, `watch` gives a running client a changed key.
"""
