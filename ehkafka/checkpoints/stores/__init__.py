"""Where checkpoints lie: the protocol of a store, and the stores."""
