"""``nczfs serve``: answers CDM Remote, and shows a store to browsers, over HTTP."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from nczfs.cli import logs
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.cli.sources import Settings
from nczfs.cli.store import place, server_options, store_options
from nczfs.errors import UsageError
from nczfs.fuse.servicemanager import notify_service_manager
from nczfs.messages import installing
from nczfs.version import VERSION
from nczfs.zmap.url import parse_url

_log = logging.getLogger(__name__)

_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a store of datasets, or a dataset")


def run(request: CommandLine) -> int:
    """Serve a store until a signal ends it."""
    try:
        import anyio  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed; `nczfs serve` needs the extra `serve`:"
            f" {installing('serve')}"
        ) from error
    settings = request.settings
    logs.configure_foreground(settings)
    _serve(place(request.arguments.url, settings), settings)
    return 0


def _serve(url: str, settings: Settings) -> None:
    from nczfs.cli.memory import share_one_heap

    share_one_heap()
    from nczfs.serve.app import AppOptions, application
    from nczfs.serve.server import ServerOptions, listen, serve, url_of
    from nczfs.serve.store import ServedStore
    from nczfs.vfs import laterparts

    laterparts.load()
    host, port = settings.address("listen")
    clients = settings.number("max-clients")
    options = ServerOptions(
        host,
        port,
        connections_max=4 * clients,
        stall_s=settings.seconds("client-timeout"),
        stop_s=settings.seconds("stop-timeout"),
    )
    records = settings.words("record-dim") or frozenset()
    source = parse_url(url).text
    with listen(options) as listener:
        store = ServedStore(url, store_options(settings), server_options(settings), records)
        try:
            app = application(
                store,
                AppOptions(clients, hosts=_hosts(settings, listener.getsockname()[0])),
                records,
            )
            at = url_of(listener)
            _log.info("nczfs %s, process %d: serves %s at %s", VERSION, os.getpid(), source, at)

            def announce() -> None:
                print(f"nczfs: {source} is served at {at}; Ctrl-C ends it", file=sys.stderr)
                notify_service_manager("READY=1")

            serve(app, listener, options, announce)
        finally:
            notify_service_manager("STOPPING=1")
            store.close()


def _hosts(settings: Settings, address: str) -> tuple[str, ...]:
    """Return the names by which the service may be called.

    On a loopback address it answers to no other name by default: otherwise a page of another site,
    whose name is made to lead to this machine, could read the store through the user's browser.
    """
    allowed = settings.words("allow-host")
    is_loopback = address.startswith("127.") or address == "::1"
    if allowed is None:
        return (*_LOOPBACK, address) if is_loopback else ("*",)
    return (*_LOOPBACK, *sorted(allowed))


COMMAND = Command(
    "serve",
    "serve a store over HTTP, to CDM Remote clients and browsers",
    _arguments,
    run,
    (
        "nczfs serve s3://bucket/prefix",
        "nczfs serve era5.zarr --listen 0.0.0.0:8080 --max-clients 200",
    ),
    scopes=frozenset({Scope.STORE, Scope.READING, Scope.SERVICE, Scope.MEMORY, Scope.LOG}),
    owns_signals=True,
)
