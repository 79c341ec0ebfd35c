"""Handlers: from the decorator's words to the call.

`spec` and `batch` are what a handler is, `call` and `batch_call` make one callable out of it, its middleware
and its class, `sending` sends what it returns, `adapt` wraps functions that were written for messages.
`arguments` reads what its parameters ask for, `payload` decodes it; `output_types` compares what handlers of
one output topic return. `workers` calls them.
"""
