"""Web servers on loopback that serve directories: nginx, Apache and Python's own.

nginx and Apache come with Debian; scripts/setup installs them. They are started once a session,
by hand and on free ports, with nothing of their system-wide configuration.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.ports import free_port, wait_for

USER = "www-data"  # that servers started by root become

_NGINX = """
daemon off;
master_process off;
pid {home}/pid;
error_log {home}/log warn;
events {{ worker_connections 512; }}
http {{
    access_log {home}/access;
    client_body_temp_path {home}/temp;
    proxy_temp_path {home}/temp;
    fastcgi_temp_path {home}/temp;
    uwsgi_temp_path {home}/temp;
    scgi_temp_path {home}/temp;
    ssl_certificate {home}/certificate;
    ssl_certificate_key {home}/key;
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{tls_port} ssl;
        location /json/ {{ alias {root}/; autoindex on; autoindex_format json; }}
        location /html/ {{ alias {root}/; autoindex on; }}
        location /unlisted/ {{ alias {root}/; }}
        location /private/ {{
            alias {root}/; auth_basic "private"; auth_basic_user_file {home}/users;
        }}
    }}
}}
"""

_APACHE = """
ServerRoot {home}
ServerName localhost
PidFile {home}/pid
ErrorLog {home}/log
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule autoindex_module {modules}/mod_autoindex.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule alias_module {modules}/mod_alias.so
Alias /plain {root}
Alias /fancy {root}
<Directory {root}>
    Options +Indexes
    Require all granted
</Directory>
<Location /fancy>
    IndexOptions FancyIndexing HTMLTable NameWidth=20
</Location>
"""


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server.

    Attributes
    ----------
    root : the directory that it serves.
    log : one line a request, where the server writes one.
    tls_url, certificate : the same with TLS, and the file of the authority that vouches for it.
    """

    url: str
    root: Path
    log: Path
    tls_url: str = ""
    certificate: Path = Path()

    def new_directory(self) -> Path:
        """An empty directory that is served."""
        path = self.root / uuid4().hex[:12]
        path.mkdir()
        return path


@pytest.fixture(scope="session")
def nginx() -> Iterator[WebServer]:
    """nginx: below /json and /html with listings, below /unlisted without, /private for users."""
    with _home() as (home, root):
        port = free_port()
        (home / "users").write_text("user:{PLAIN}hush-hush\n")
        tls_port = free_port()
        certificate = _new_certificate(home)
        (home / "conf").write_text(
            _NGINX.format(home=home, root=root, port=port, tls_port=tls_port)
        )
        command = [_program("nginx"), "-p", str(home), "-c", str(home / "conf")]
        command += ["-e", str(home / "log")]
        with _running(command, port, home / "log") as url:
            tls_url = f"https://127.0.0.1:{tls_port}"
            yield WebServer(url, root, home / "access", tls_url, certificate)


@pytest.fixture(scope="session")
def apache() -> Iterator[WebServer]:
    """Apache: below /plain and /fancy with its two kinds of listings."""
    with _home() as (home, root):
        port = free_port()
        user = f"User {USER}\nGroup {USER}" if os.getuid() == 0 else ""
        modules = "/usr/lib/apache2/modules"
        (home / "conf").write_text(
            _APACHE.format(home=home, root=root, port=port, user=user, modules=modules)
        )
        command = [_program("apache2"), "-f", str(home / "conf"), "-D", "FOREGROUND"]
        with _running(command, port, home / "log") as url:
            yield WebServer(url, root, home / "log")


@pytest.fixture(scope="session")
def python_server() -> Iterator[WebServer]:
    """The server of Python's standard library: HTTP/1.0, no ranges, no ETag."""
    with _home() as (home, root):
        port = free_port()
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]
        command += ["--directory", str(root), str(port)]
        with _running(command, port, home / "log") as url:
            yield WebServer(url, root, home / "log")


def _new_certificate(home: Path) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself."""
    path = home / "certificate"
    command = [_program("openssl"), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(home / "key")]
    command += ["-out", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    if found is None:
        pytest.fail(f"{name} is not installed: run scripts/setup", pytrace=False)
    return found


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, Path]]:
    """Directories for a server's own files and for those it serves, readable by its user."""
    with tempfile.TemporaryDirectory(prefix="nczfs-httpd-") as directory:
        home = Path(directory)
        home.chmod(0o755)
        root = home / "root"
        root.mkdir()
        yield home, root


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, log: Path) -> Iterator[str]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],  # nginx overwrites its environment
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
