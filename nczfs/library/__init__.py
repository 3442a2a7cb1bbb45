"""The face for Python users: datasets, groups and variables, and opening them."""
