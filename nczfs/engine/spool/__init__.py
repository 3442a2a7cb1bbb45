"""The spool: data on the local disk that are being written or could not be stored."""
