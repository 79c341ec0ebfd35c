"""What an app shows of itself: events, counters, the snapshot, health. Observes; decides nothing."""
