"""A first request to a server, which needs no permission: it shows that something answers."""

from __future__ import annotations

from nczfs.version import VERSION
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.web.attempts import Deadline
from nczfs.zmap.web.bodies import WantedBytes
from nczfs.zmap.web.exchange import Exchange, Question, ServerAnswer


def knock(
    url: str, options: StoreOptions, *, named_by: str, ca_bundle: str | None, proxy: str
) -> dict[str, str]:
    """Send HEAD to the root of a server, and return the headers of the answer, whatever it is.

    Parameters
    ----------
    url : scheme, host and port.
    named_by, ca_bundle, proxy : as for `Exchange`.

    Raises
    ------
    Unavailable, DeadlinePassed : there is no answer.
    """
    exchange = Exchange(
        "doctor", url, options, address_from=named_by, ca_bundle=ca_bundle, proxy=proxy
    )
    headers = {"user-agent": f"nczfs/{VERSION}"}
    question = Question("HEAD", f"{url}/", headers, WantedBytes(0))

    def attempt(deadline: Deadline) -> ServerAnswer:
        return exchange.ask(question, deadline, url)

    try:
        answer = exchange.run(url, attempt)
    finally:
        exchange.close()
    return {name.lower(): value for name, value in answer.headers.items()}
