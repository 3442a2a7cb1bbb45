"""The way to a server: proxies, its name, its answer, TLS, its clock."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.request import getproxies

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong, wrong_by
from nczfs.errors import StoreError, UsageError
from nczfs.zmap.destination import Destination
from nczfs.zmap.web.proxy import parse_proxy

CLOCK_OFF_S = 30.0  # much less than what is refused, but no clock that is kept right
CLOCK_OFF_MAX_S = 15 * 60.0  # S3 refuses requests with other times
CERTIFICATE_S = 14 * 86400.0
CONNECT_S = 4.0


def proxies() -> CheckResult:
    """Check the proxies that the environment names."""
    named = []
    for scheme, text in sorted(getproxies().items()):
        if scheme not in ("http", "https", "all"):
            continue
        try:
            proxy = parse_proxy(text)
        except UsageError as error:
            return wrong(f"{scheme}_proxy: {error}", f"correct or unset {scheme}_proxy")
        if proxy is not None:
            named.append(f"{scheme} through {proxy.name}")
    return well(", ".join(named) if named else "none: requests go directly")


def way(destination: Destination) -> CheckResult:
    """Check that a server on this machine or in its network is not asked for through a proxy."""
    if not destination.proxy:
        return well(f"{destination.url} is asked directly")
    text = f"{destination.url} is asked through the proxy {destination.proxy}"
    if _is_near(destination.host):
        return doubtful(text, f"for a direct way, add {destination.host} to no_proxy")
    return well(text)


def name(destination: Destination) -> CheckResult:
    """Check that the name of the server has an address."""
    try:
        found = socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not the name of a host"
        return wrong(
            f"{destination.host}: {reason}",
            f"check {destination.named_by}, and the name servers of this machine",
        )
    if _address(destination.host) is not None:
        return well(f"{destination.host} is an address")
    addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
    more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
    return well(f"{destination.host} is {addresses[0]}{more}")


def encryption(destination: Destination) -> CheckResult:
    """Check the certificate of the server."""
    if not destination.is_encrypted:
        if _is_loopback(destination.host):
            return well("none (http://), on this machine")
        return doubtful(
            "none (http://): anyone on the way can read and change data", "use https://"
        )
    bundle = destination.ca_bundle
    is_directory = bundle is not None and os.path.isdir(bundle)
    context = ssl.create_default_context(
        cafile=None if is_directory else bundle, capath=bundle if is_directory else None
    )
    place = destination.host, destination.port
    try:
        with (
            socket.create_connection(place, CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=destination.host) as secure,
        ):
            version, certificate = secure.version(), secure.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        return wrong(
            f"the certificate of {destination.url} is not accepted: {error.verify_message}",
            "give the file of its authority by --ca-bundle, or correct the clock or the name",
        )
    except ssl.SSLError as error:
        reason = (error.reason or "no reason given").replace("_", " ").lower()
        return wrong(f"{destination.url} does not speak TLS ({reason})", "use http://")
    except OSError as error:
        return wrong(
            f"{destination.url}: {error.strerror or 'no connection'}",
            f"check {destination.named_by}",
        )
    end = str(certificate.get("notAfter", ""))
    text = f"{version}, with a certificate until {end}"
    if end and ssl.cert_time_to_seconds(end) - time.time() < CERTIFICATE_S:
        return doubtful(text, "who runs the server should renew it")
    return well(text)


def answer(destination: Destination) -> tuple[CheckResult, dict[str, str]]:
    """Check that the server answers at all. Returns the headers of its answer, too."""
    begun = time.monotonic()
    try:
        headers = destination.knock()
    except StoreError as error:
        return wrong_by(error), {}
    took_ms = 1000 * (time.monotonic() - begun)
    return well(f"{destination.url} answers, first after {took_ms:.0f} ms"), headers


def clock(destination: Destination, headers: dict[str, str]) -> CheckResult:
    """Compare the clock of this machine with the server's."""
    try:
        there = parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):
        return well("not compared, as the server does not say its time")
    if there.tzinfo is None:
        there = there.replace(tzinfo=UTC)
    off_s = (datetime.now(UTC) - there).total_seconds()
    if abs(off_s) < CLOCK_OFF_S:
        return well(f"agrees with that of {destination.host}")
    text = f"{abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} that of {destination.host}"
    remedy = "set the clock of this machine, as by `timedatectl set-ntp true`"
    if abs(off_s) > CLOCK_OFF_MAX_S and destination.bucket is not None:
        return wrong(f"{text}, and S3 refuses more than 15 minutes", remedy)
    return doubtful(text, remedy)


def _is_near(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_private


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
