"""Progress: from what is finished to what the group has committed, never ahead of it."""
