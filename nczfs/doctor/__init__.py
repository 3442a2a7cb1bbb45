"""``nczfs doctor``: what keeps nczfs from working on this machine, or with a store.

::

    finding        what one check found: well, doubtful or wrong, and the remedy
    machine        kernel, /dev/fuse, fusermount3, fuse.conf, reading ahead
    limits         descriptors, memory
    room           the disks of the spool and of the cache
    network        proxies, the name, the server, TLS, the clock
    permissions    credentials, region, listing, reading, writing, conditions
    rate           latency and throughput
    content        what the dataset is, its largest chunk, consolidated metadata
    examination    all of them in order, each with an end
"""
