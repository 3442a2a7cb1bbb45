"""A read-only web service: CDM Remote, the files of datasets, and pages about them."""
