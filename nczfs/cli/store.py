"""Store options and places in stores, as arguments of commands."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from nczfs.cli.memory_limit import default_memory_limit
from nczfs.cli.sources import Settings
from nczfs.errors import NoContent
from nczfs.zmap.url import check_path, parse_url

if TYPE_CHECKING:
    from nczfs.engine.options import EngineOptions
    from nczfs.zmap.registry import StoreOptions

LEASE_SHARE = 0.8  # share of a request's time


def store_options(settings: Settings) -> StoreOptions:
    """Return the options of stores among the settings."""
    from nczfs.zmap.registry import StoreOptions  # heavy imports come after the fork

    return StoreOptions(
        endpoint_url=settings.maybe_text("endpoint-url"),
        region=settings.maybe_text("region"),
        profile=settings.maybe_text("profile"),
        expected_bucket_owner=settings.maybe_text("expected-bucket-owner"),
        ca_bundle=settings.maybe_text("ca-bundle"),
        sse=settings.maybe_text("sse"),
        sse_kms_key_id=settings.maybe_text("sse-kms-key-id"),
        part_bytes=cast(int, settings.maybe_number("part-size")),
        check_etag=cast(Literal["auto", "yes", "no"], settings.text("check-etag")),
        no_sign_request=settings.flag("no-sign-request"),
        force_path_style=settings.maybe_flag("force-path-style"),
        requester_pays=settings.flag("requester-pays"),
        forbidden_is_absent=cast(
            Literal["auto", "yes", "no"], settings.text("forbidden-is-absent")
        ),
        request_timeout_s=settings.seconds("request-timeout"),
        read_only=settings.flag("read-only"),
        durable=settings.flag("durable"),
        zip_commit=cast(Literal["append", "copy"], settings.text("zip-commit")),
        zip_form=cast(Literal["top", "root"], settings.text("zip-form")),
        zip_write_once=settings.flag("zip-write-once"),
        zip_index_dir=_zip_index_dir(settings),
        allow_references=tuple(sorted(settings.words("allow-references") or ())),
        allow_redirects=tuple(sorted(settings.words("allow-redirects") or ())),
        memory_bytes=settings.maybe_number("memory-limit") or default_memory_limit(),
    )


def _zip_index_dir(settings: Settings) -> str | None:
    cache_dir = settings.maybe_text("cache-dir")
    return None if cache_dir is None else os.path.join(cache_dir, "zip-index")


def engine_options(settings: Settings) -> EngineOptions:
    """Return the options of the engine that every command takes."""
    from nczfs.engine.lease.contention import LeaseTerms
    from nczfs.engine.options import EngineOptions

    return EngineOptions(
        chunk_bytes_max=settings.number("max-chunk-size"),
        document_bytes_max=settings.number("max-document-size"),
        is_single_writer=settings.text("single-writer") == "trust",
        # The user learns what the command waits for before the request is given up.
        lease=LeaseTerms(wait_s=LEASE_SHARE * settings.seconds("request-timeout")),
    )


def server_options(settings: Settings) -> EngineOptions:
    """Return the options of the engine of a mount or a service, which run until they are ended."""
    from nczfs.engine.options import MissingChunks

    return replace(
        engine_options(settings),
        memory_limit_bytes=settings.maybe_number("memory-limit") or default_memory_limit(),
        cache_dir=settings.maybe_text("cache-dir"),
        cache_bytes_max=settings.maybe_number("max-cache-size"),
        metadata_ttl_s=settings.seconds("metadata-ttl"),
        missing_chunks=MissingChunks(settings.text("missing-chunks")),
    )


def place(url: str, settings: Settings) -> str:
    """Return the URL with ``--prefix`` joined to it, and with a relative path made absolute.

    Raises
    ------
    BadUrl : it is empty, or a URL with a slash too few.
    """
    front, hash_sign, fragment = url.partition("#")
    if "://" not in front:
        check_path(front)
        front = os.path.abspath(os.path.expanduser(front))
    prefix = settings.maybe_text("prefix")
    if prefix:
        front = f"{front.rstrip('/')}/{prefix.strip('/')}"
    return front + hash_sign + fragment


def shown(url: str, settings: Settings) -> str:
    """Return the URL as messages show it: absolute, without secrets."""
    return parse_url(place(url, settings)).text


def nothing_at(url: str, settings: Settings) -> NoContent:
    """Return the error of a place where nothing is."""
    there = parse_url(place(url, settings))
    if there.prefix:
        return NoContent(f"{there.text}: no key begins with {there.prefix}/; is the name right?")
    return NoContent(f"{there.text}: is empty")
