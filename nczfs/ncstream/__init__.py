"""ncstream, the messages of netcdf-java and of CDM Remote: headers and data, written and read."""

from nczfs.ncstream.assembling import assemble
from nczfs.ncstream.messages import Header, StreamError
from nczfs.ncstream.reading import Array, read

__all__ = ["Array", "Header", "StreamError", "assemble", "read"]
