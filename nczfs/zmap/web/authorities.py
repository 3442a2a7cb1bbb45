"""Files of the certificate authorities that the user trusts."""

from __future__ import annotations

import os
import ssl

from nczfs.errors import UsageError


def check_authorities(path: str) -> None:
    """Check that a file contains certificates; a directory is not checked.

    Raises
    ------
    UsageError : there is no such file, it cannot be read, or has no certificate.
    """
    if os.path.isdir(path):
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"{path}: contains no certificate (--ca-bundle)") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror} (--ca-bundle)") from error
