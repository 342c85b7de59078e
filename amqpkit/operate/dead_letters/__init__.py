"""Dead letters: reading, choosing, replaying, discarding, keeping."""
