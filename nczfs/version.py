"""The version of nczfs, also for its package."""

VERSION = "0.1.0"
