"""The single writer of a store without atomic operations."""
