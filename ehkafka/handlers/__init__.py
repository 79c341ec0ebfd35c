"""Handlers: from the decorator's words to the call.

`spec` and `batch` say what a handler is, `call` and `chunk_call` make one callable out of it, its middleware
and its class, `sending` sends what it returns, `adapt` wraps functions that were written for messages.
Who calls them is `workers`' business.
"""
