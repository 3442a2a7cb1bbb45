"""Groups as ncstreams."""
