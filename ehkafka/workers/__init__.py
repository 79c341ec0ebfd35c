"""Workers: what executes handlers. One protocol, several kinds; this room alone runs user handlers."""
