"""Verification of datasets: their soundness, missing chunks, and checksums of values."""
