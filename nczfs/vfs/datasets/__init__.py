"""The tree `datasets/`: groups and variables as directories, their values as files."""
