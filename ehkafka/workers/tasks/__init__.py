"""Tasks of one event loop as workers, for `async def` handlers."""
