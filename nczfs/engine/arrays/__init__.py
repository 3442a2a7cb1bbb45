"""Arrays: values read and written by selection, across chunks."""
