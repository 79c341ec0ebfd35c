"""The simulator: a seed decides everything that threads, brokers and clocks would."""
