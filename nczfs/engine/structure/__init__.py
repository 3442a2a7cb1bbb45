"""Changes of what a dataset consists of: making, renaming, removing, rewriting."""
