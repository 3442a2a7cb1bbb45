"""Open datasets for front ends: Python users, a mount, a service."""
