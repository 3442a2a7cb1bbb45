"""A netCDF-4 file as a byte layout.

An HDF5 library writes the file once without any values, into a sparse file in memory: the template.
What it wrote are the literals of the layout; the places that it kept for values are the runs.

::

    layout       content and template -> segments
    templates    templates by their content: in memory, on disk, or built
    stored       a template as a file on disk
    template     the template as plain data
    building     content -> template, through h5py
    sparse       the file in memory
    scales       which variable is the scale of which dimension
    filetypes    types of HDF5
"""
