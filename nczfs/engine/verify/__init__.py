"""Whether a dataset is sound, what it lacks, and checksums of its values."""
