"""The place of a bucket and the credentials for it: what nczfs takes from botocore.

botocore's chain finds endpoint, region and credentials (options, environment, files, container,
instance); GDAL's variables come after it. `signing` and `transport` sign and send most requests
instead of botocore, in a quarter of its processor time.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from json import JSONDecodeError
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    ProfileNotFound,
)
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from nczfs.buffers import Buffer
from nczfs.errors import AccessDenied, UsageError
from nczfs.plaindata import frozen
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.signing import signed
from nczfs.zmap.url import check_endpoint
from nczfs.zmap.web.authorities import check_authorities

if TYPE_CHECKING:
    from nczfs.zmap.s3.client import Client, Clients

# Its debug messages quote the headers that it signs, including tokens. At level INFO each command
# would print where it found the endpoint and the credentials.
logging.getLogger("botocore").setLevel(logging.WARNING)
# Its warnings quote the output of programs that provide credentials; `_frozen` raises instead.
logging.getLogger("botocore.credentials").setLevel(logging.ERROR)

_DNS_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # no dots: TLS names cover one label
_SOURCES = {  # botocore's names of its providers
    "env": "variables of the environment",
    "shared-credentials-file": "the credentials file",
    "config-file": "the configuration file",
    "custom-process": "a program of the configuration file",
    "container-role": "the role of the container",
    "iam-role": "the role of the instance",
}
_OF_PROFILES = frozenset({"shared-credentials-file", "config-file", "custom-process"})
_TRUE = frozenset({"1", "yes", "true", "on"})
_FALSE = frozenset({"0", "no", "false", "off"})


@frozen
class Site:
    """The target of requests for a bucket.

    Attributes
    ----------
    endpoint_url : of the server, without the bucket.
    root_url : of the bucket, without a slash at its end.
    region : for signatures.
    is_amazon : whether the endpoint is Amazon's own.
    by_path : whether the bucket is in the path, not in front of the host.
    """

    endpoint_url: str
    root_url: str
    region: str
    is_amazon: bool
    by_path: bool

    def url(self, key: str, query: Mapping[str, str]) -> str:
        """Return the URL of a key, or of the bucket itself ("")."""
        path = f"/{_quote(key)}" if key else ""
        if not path and not urlsplit(self.root_url).path:
            path = "/"
        return f"{self.root_url}{path}?{_encode(query)}" if query else f"{self.root_url}{path}"


class S3Access:
    """A finder of a bucket that signs requests for it.

    There is no network traffic before the first signature. The lock guards the credentials and
    boto3's client, and is held while they are fetched or made: once for all threads.

    Parameters
    ----------
    endpoint_from : the setting that names the endpoint, if the options have one.
    """

    def __init__(
        self, bucket: str, options: StoreOptions, *, endpoint_from: str = "--endpoint-url"
    ) -> None:
        self._bucket = bucket
        self._options = options
        self._endpoint_from = endpoint_from
        self.anonymous = options.no_sign_request or _flag("AWS_NO_SIGN_REQUEST") is True
        self._lock = threading.Lock()
        self._session = self._new_session()
        self._credentials: botocore.credentials.Credentials | None = None
        self._access_key = ""
        self._clients: Clients | None = None
        self._site = self._find(self._region())
        self.ca_bundle = self._find_ca_bundle()
        self.proxies: Mapping[str, str] = get_environ_proxies(self._site.root_url)

    @property
    def site(self) -> Site:
        """The present target of requests."""
        return self._site

    @property
    def endpoint_from(self) -> str:
        """The setting that names the server, to be checked if there is no answer."""
        if self._options.endpoint_url is not None:
            return self._endpoint_from
        if self._site.is_amazon:
            return "--region and the network"
        return "AWS_ENDPOINT_URL_S3 and its like, or give --endpoint-url"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        headers = {}
        payer = os.environ.get("AWS_REQUEST_PAYER", "").lower()
        if self._options.requester_pays or payer == "requester":
            headers["x-amz-request-payer"] = "requester"
        if self._options.expected_bucket_owner:
            headers["x-amz-expected-bucket-owner"] = self._options.expected_bucket_owner
        return headers

    @property
    def encryption(self) -> dict[str, str]:
        """Headers of every request that makes an object."""
        headers = {}
        if self._options.sse is not None:
            headers["x-amz-server-side-encryption"] = self._options.sse
        if self._options.sse_kms_key_id is not None:
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = self._options.sse_kms_key_id
        return headers

    def copy_source(self, key: str) -> dict[str, str]:
        """Return the parameter with which boto3 copies an object of the bucket."""
        return {"Bucket": self._bucket, "Key": key}

    def client(self) -> tuple[Client, str]:
        """Return boto3's client and its access key ("": unsigned). Raises as `sign`."""
        from nczfs.zmap.s3.client import Clients  # making it takes 0.1 s, and few commands need it

        access_key = "" if self.anonymous else str(self._frozen().access_key)
        site = self._site
        with self._lock:
            if self._clients is None:
                self._clients = Clients(
                    self._bucket, anonymous=self.anonymous, headers=self.headers
                )
            client = self._clients.client(
                self._session, site.endpoint_url, site.region, by_path=site.by_path
            )
        return client, access_key

    def credentials_from(self) -> str:
        """Return the source of the credentials; "": requests are not signed. Raises as `sign`."""
        if self.anonymous:
            return ""
        self._frozen()
        method = str(getattr(self._credentials, "method", None) or "botocore")
        profile = self._session.profile or "default"
        name = _SOURCES.get(method, method)
        return f"{name}, profile {profile}" if method in _OF_PROFILES else name

    def close(self) -> None:
        """Release what boto3 holds; may be called twice."""
        with self._lock:
            if self._clients is not None:
                self._clients.close()

    def move(self, region: str) -> bool:
        """Remember the region that the server named. Returns False if it was the requested one."""
        if region == self._site.region:
            return False
        if self._site.is_amazon and self._options.endpoint_url is not None:
            self._options = replace(self._options, endpoint_url=None)  # it named a region
        self._site = (
            self._find(region) if self._site.is_amazon else replace(self._site, region=region)
        )
        return True

    def may_copy_from(self, other: S3Access) -> bool:
        """Return whether the server can copy from another bucket: the same server and user."""
        ours, theirs = self._site, other._site
        same_server = ours.is_amazon and theirs.is_amazon
        same_server = same_server or ours.endpoint_url == theirs.endpoint_url
        same_user = self._options.profile == other._options.profile
        return same_server and same_user and self.anonymous == other.anonymous

    def sign(
        self, method: str, url: str, headers: Mapping[str, str], body: Buffer
    ) -> tuple[dict[str, str], str]:
        """Return the headers with a signature, and its access key ("": unsigned).

        Raises
        ------
        AccessDenied : there are no credentials, or they cannot be fetched.
        """
        if self.anonymous:
            return dict(headers), ""
        credentials = self._frozen()
        out = signed(
            method,
            url,
            headers,
            body,
            credentials=credentials,
            region=self._site.region,
            now=datetime.now(UTC),
        )
        return out, str(credentials.access_key)

    def renew(self, access_key: str) -> None:
        """Fetch the credentials anew, unless another thread has since `access_key` signed."""
        with self._lock:
            if self._access_key == access_key:
                self._session = self._new_session()
                self._credentials = None

    def _frozen(self) -> ReadOnlyCredentials:
        try:
            with self._lock:
                if self._credentials is None:
                    self._credentials = self._session.get_credentials()
                credentials = self._credentials
            frozen = credentials.get_frozen_credentials() if credentials is not None else None
        except Exception as error:  # noqa: BLE001 - a program of the user makes botocore raise any
            # Without its cause, which may contain that program's output: the credentials.
            raise self._denied(_reason(error)) from None
        if frozen is None:
            raise AccessDenied(
                f"s3://{self._bucket}: no AWS credentials found: set AWS_PROFILE or "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give --profile, or "
                "--no-sign-request for public buckets"
            )
        if fault := _fault(frozen):
            raise self._denied(fault)
        self._access_key = str(frozen.access_key)
        return frozen

    def _denied(self, reason: str) -> AccessDenied:
        return AccessDenied(
            f"s3://{self._bucket}: the AWS credentials cannot be obtained: {reason}"
        )

    def _new_session(self) -> botocore.session.Session:
        session = botocore.session.Session(profile=self._options.profile)
        try:
            session.get_scoped_config()
        except ProfileNotFound as error:
            if not self.anonymous:
                known = ", ".join(session.available_profiles) or "none"
                raise UsageError(f"{error}; known profiles: {known}") from error
            session = botocore.session.Session(profile="default")
        except BotoCoreError as error:
            raise UsageError(f"the AWS configuration files cannot be read: {error}") from error
        return session

    def _region(self) -> str:
        return (
            self._options.region
            or os.environ.get("AWS_REGION")  # newer than botocore's AWS_DEFAULT_REGION
            or self._session.get_config_variable("region")
            or "us-east-1"
        )

    def _find(self, region: str) -> Site:
        endpoint = (self._options.endpoint_url or self._resolved_endpoint(region)).rstrip("/")
        check_endpoint(endpoint)
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        is_amazon = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
        by_path = self._by_path(is_amazon=is_amazon)
        if by_path:
            root = f"{endpoint}/{quote(self._bucket, safe='-._~')}"
        else:
            root = f"{parts.scheme}://{self._bucket}.{parts.netloc}{parts.path}"
        return Site(endpoint, root, region, is_amazon, by_path)

    def _resolved_endpoint(self, region: str) -> str:
        """Return botocore's endpoint: variables, services sections, partitions, dual stack."""
        if configured := _gdal_endpoint():
            return configured
        try:
            client = self._session.create_client(
                "s3", region_name=region, config=Config(signature_version=UNSIGNED)
            )
        except BotoCoreError as error:
            raise UsageError(f"s3://{self._bucket}: {error}") from error
        except ValueError:  # its text quotes the endpoint, which may contain a password
            raise UsageError(
                f"s3://{self._bucket}: the endpoint of the variables or files of AWS is not a URL"
            ) from None
        client.close()
        return str(client.meta.endpoint_url)

    def _by_path(self, *, is_amazon: bool) -> bool:
        if self._options.force_path_style is not None:
            return self._options.force_path_style
        section = self._session.get_scoped_config().get("s3")
        style = section.get("addressing_style") if isinstance(section, dict) else None
        virtual = _flag("AWS_VIRTUAL_HOSTING")
        if style in {"path", "virtual"}:
            return bool(style == "path")
        if virtual is not None:
            return not virtual
        return not is_amazon or _DNS_NAME.fullmatch(self._bucket) is None

    def _find_ca_bundle(self) -> str:
        chosen = self._options.ca_bundle or self._session.get_config_variable("ca_bundle")
        if chosen:
            check_authorities(chosen)
        return str(chosen or get_cert_path(True))


def _reason(error: Exception) -> str:
    """Return why there are no credentials, without quoting a program or server."""
    match error:
        case CredentialRetrievalError():
            return f"{error.kwargs['provider']} failed, or gave no usable ones"
        case BotoCoreError() | ClientError() | RuntimeError():  # the last one: they have expired
            return str(error)
        case OSError():
            named = f": {error.filename}" if error.filename else ""
            return f"the program or file that should provide them: {error.strerror}{named}"
        case JSONDecodeError():
            return "their source gave something that is not the expected JSON"
    return f"their source gives no usable ones ({type(error).__name__})"


def _fault(credentials: ReadOnlyCredentials) -> str:
    """Return what keeps credentials from being used at all; "": nothing."""
    secret = credentials.secret_key
    for text in (credentials.access_key, credentials.token or "", secret):
        if not isinstance(text, str) or not text.isprintable():
            return "they are not text, or contain control characters"
        if text is not secret and not text.isascii():
            return "they contain characters that a header cannot hold"
    return ""


def _quote(text: str, safe: str = "-._~/") -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe=safe)


def _encode(query: Mapping[str, str]) -> str:
    return "&".join(f"{name}={_quote(value, safe='-._~')}" for name, value in query.items())


def _gdal_endpoint() -> str | None:
    """Return GDAL's variable, a host without a scheme, if botocore's own are not set."""
    host = os.environ.get("AWS_S3_ENDPOINT")
    if not host or "AWS_ENDPOINT_URL_S3" in os.environ or "AWS_ENDPOINT_URL" in os.environ:
        return None
    if "://" in host:
        return host
    return f"{'http' if _flag('AWS_HTTPS') is False else 'https'}://{host}"


def _flag(variable: str) -> bool | None:
    value = os.environ.get(variable, "").lower()
    return True if value in _TRUE else False if value in _FALSE else None
