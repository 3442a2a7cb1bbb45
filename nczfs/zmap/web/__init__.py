"""The transport of all stores behind HTTP: plain web servers and S3.

::

    exchange      one request and its answer, of which no more is read than was requested
    attempts      repeats failed requests within their time
    failures      what went wrong with a connection, in words
    connections   pools of connections; bodies       their answers; resolving   and addresses
    headers       values of headers, which may contain anything
    redirects     which redirections are followed
    proxy, authorities   proxies and certificates of the environment and the user
"""
