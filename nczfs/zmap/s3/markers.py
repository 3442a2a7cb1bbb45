"""Directories without keys: empty objects whose keys end in a slash.

Amazon's console, s3fs, Hadoop and rclone make such objects, and take them for directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.errors import Conflict, NoSuchObject, StoreError
from nczfs.zmap.keys import Key, Prefix, checked_length, checked_text
from nczfs.zmap.s3 import answers
from nczfs.zmap.s3.messages import S3Answer, S3Request
from nczfs.zmap.s3.transport import S3Transport

_TYPE = {"content-type": "application/x-directory"}


class Markers:
    """The markers of a bucket.

    Parameters
    ----------
    encryption : headers of every request that makes an object.
    head : returns the answer to a HEAD; raises if it is a refusal.
    """

    def __init__(
        self, transport: S3Transport, encryption: Mapping[str, str], head: Callable[[Key], S3Answer]
    ) -> None:
        self._transport = transport
        self._encryption = encryption
        self._head = head

    def make(self, prefix: Prefix) -> None:
        """Make the empty object."""
        key = checked_text(checked_length(f"{prefix}/"))
        request = S3Request("PUT", key, {**self._encryption, **_TYPE})
        answer = self._transport.send(request, answers.etag_fault)
        if answer.status != 200:
            raise self._failure(answer, key)

    def remove(self, prefix: Prefix) -> None:
        """Remove the object after looking for it, since a bucket may keep deleted objects."""
        key = Key(f"{prefix}/")
        try:
            found = answers.stat_of(key, self._head(key))
        except NoSuchObject:
            return
        if found.size:
            raise Conflict(
                f"{self._transport.name}/{key}: the object of this name is not a "
                f"directory marker but holds {found.size} bytes; remove it with another client"
            )
        answer = self._transport.send(S3Request("DELETE", key))
        if answer.status not in {200, 204, 404}:
            raise self._failure(answer, key)

    def _failure(self, answer: S3Answer, key: Key) -> StoreError:
        where = self._transport.where(key)
        return answers.failure(answer, where, anonymous=self._transport.anonymous)
