"""Connection strings and their keys, which may be rotated while clients run."""
