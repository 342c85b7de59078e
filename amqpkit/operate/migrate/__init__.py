"""Change an immutable argument of a live queue: same name, no message lost, consumers and publishers running."""
