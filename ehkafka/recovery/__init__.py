"""What becomes of a record whose handler raised: policies, decisions, retries, dead letters."""
