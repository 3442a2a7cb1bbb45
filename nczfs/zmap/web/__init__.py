"""What every store behind HTTP asks through: plain web servers and S3 alike.

::

    exchange      one request and its answer, of which no more is taken than was asked for
    attempts      repeats what fails, as long as the time of a request lasts
    failures      what went wrong with a connection, in words
    connections   pools of connections; bodies       their answers; resolving   and addresses
    headers       values of headers that may say anything
    redirects     which redirections are followed
    proxy, authorities   what the environment and the user name on the way
"""
