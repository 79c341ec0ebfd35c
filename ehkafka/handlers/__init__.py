"""Handlers: from the decorator's words to the call.

`spec` and `batch` say what a handler is, `call` and `chunk_call` make one callable out of it, its middleware
and its class, `sending` sends what it returns, `adapt` wraps functions that were written for messages.
`arguments` reads what its parameters ask for, `payload` decodes it; `output_types` compares what handlers of
one output topic return. Who calls them is `workers`' business.
"""
