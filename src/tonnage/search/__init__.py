"""The space of plans: weighed as columns, bounded, ranked."""
