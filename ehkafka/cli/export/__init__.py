"""`ehkafka export`: a range of a topic as files.

`command` has the options, reads and reports; `target` is the name that the files get at the end, `files`
writes each format. Only `files` needs pyarrow at import.
"""
