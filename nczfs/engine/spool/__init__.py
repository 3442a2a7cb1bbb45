"""The spool: what is being written or could not be stored, on the local disk."""
