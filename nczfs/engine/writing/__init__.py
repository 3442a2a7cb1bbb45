"""Written chunks on their way to the store."""
