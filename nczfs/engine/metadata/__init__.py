"""Documents and listings of a store, the nodes that they describe, and their changes."""
