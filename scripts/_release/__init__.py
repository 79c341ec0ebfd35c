"""What `scripts/release` is made of. Standard library only: each tool runs in an environment of its own."""
