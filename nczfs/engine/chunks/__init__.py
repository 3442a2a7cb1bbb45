"""Single chunks: loading and storing them, the cache and its disk tier."""
