"""Pools of connections to the servers of one store."""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from nczfs.zmap.web.bodies import Response, call_before_answer
from nczfs.zmap.web.failures import (
    PROXY_REFUSES,
    AttemptFailed,
    proxy_failed,
    refused_by_proxy,
)
from nczfs.zmap.web.proxy import parse_proxy
from nczfs.zmap.web.resolving import connect


class _Connection(HTTPConnection):
    response_class = Response

    def getresponse(self) -> Any:
        call_before_answer()
        return super().getresponse()

    def _new_conn(self) -> socket.socket:
        """Connect as urllib3 does, whose timeout is for each address, and excludes name lookup."""
        timeout = self.timeout
        assert isinstance(timeout, int | float)
        try:
            sock = connect(
                self._dns_host, self.port or 0, timeout, self.socket_options, self.source_address
            )
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no connection in {timeout:g} s") from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        sys.audit("http.client.connect", self, self.host, self.port)
        return sock


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS: Final[Mapping[str, type[HTTPConnectionPool]]] = {"http": _Pool, "https": _SecurePool}


class Connections:
    """Pools of connections, one per process. The lock guards the pool of this process.

    Parameters
    ----------
    count : of connections, and so the most requests at once; at most a quarter of the descriptors
        that the process may have.
    ca_bundle : a file or directory of certificate authorities; None: the system's.
    proxy : the URL of a proxy, "" without one.

    Raises
    ------
    UsageError : the proxy is unusable.
    """

    def __init__(self, count: int, ca_bundle: str | None, proxy: str) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_limited = descriptors != resource.RLIM_INFINITY
        self._count = max(1, min(count, descriptors // 4)) if is_limited else count
        self._ca_bundle = ca_bundle
        self._proxy = parse_proxy(proxy)
        self._lock = threading.Lock()
        self._pools: urllib3.PoolManager | None = None
        self._process = 0
        self._closed = False

    @property
    def proxy(self) -> str:
        """The host and port of the proxy; "": none."""
        return self._proxy.name if self._proxy is not None else ""

    def check_status(self, status: int) -> None:
        """Raise AttemptFailed if the status of an answer is from the proxy itself."""
        if status == PROXY_REFUSES and self._proxy is not None:
            raise proxy_failed(self.proxy, refused_by_proxy(status))

    def pools(self) -> urllib3.PoolManager:
        """Return the pools of this process; a forked child must not use its parent's sockets."""
        with self._lock:
            if self._closed:
                raise AttemptFailed("the store is closed", final=True)
            if self._pools is None or self._process != os.getpid():
                self._pools, self._process = self._new(), os.getpid()
                self._pools.pool_classes_by_scheme = dict(_POOLS)
            return self._pools

    def close(self) -> None:
        """Release the connections; may be called twice."""
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, None
        if pools is not None:
            pools.clear()

    def _new(self) -> urllib3.PoolManager:
        bundle = self._ca_bundle
        is_dir = bundle is not None and os.path.isdir(bundle)
        ca_certs, ca_cert_dir = (None, bundle) if is_dir else (bundle, None)
        if self._proxy is None:
            return urllib3.PoolManager(
                maxsize=self._count, block=True, ca_certs=ca_certs, ca_cert_dir=ca_cert_dir
            )
        user = self._proxy.user
        return urllib3.ProxyManager(
            self._proxy.url,
            proxy_headers=urllib3.make_headers(proxy_basic_auth=user) if user else None,
            maxsize=self._count,
            block=True,
            ca_certs=ca_certs,
            ca_cert_dir=ca_cert_dir,
        )
