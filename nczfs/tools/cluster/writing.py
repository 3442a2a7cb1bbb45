"""Writes of many small documents on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nczfs.engine.stores import open_store
from nczfs.errors import Conflict, PiecesFailed
from nczfs.plaindata import frozen
from nczfs.tools.cluster.dask import Cluster
from nczfs.tools.cluster.held import held
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.metadata_conversion import NewDocument
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.source import Notice
from nczfs.zmap.base import ABSENT
from nczfs.zmap.url import parse_url


@frozen
class WriteJob:
    """What all pieces share."""

    token: str
    opened_by: OpenedBy


class WriteRun:
    """Writes batches of documents on a cluster; to be passed to `MetadataConversion.run`."""

    def __init__(self, cluster: Cluster, opened_by: OpenedBy, notice: Notice) -> None:
        self._cluster = cluster
        self._job = WriteJob(cluster.token, opened_by)
        self._notice = notice

    def __call__(self, batches: Iterator[Sequence[NewDocument]], progress: Progress) -> None:
        """Write all documents.

        Raises
        ------
        PiecesFailed : some could not be written; their keys were reported. ClusterLost.
        """
        failed = 0
        for outcome in self._cluster.outcomes(
            write_documents, self._job, batches, tuple, lambda: progress(0)
        ):
            if outcome.trouble:
                failed += len(outcome.piece)
                for document in outcome.piece:
                    self._notice(f"{document.key}: {outcome.trouble}")
            else:
                progress(len(outcome.piece))
        if failed:
            raise PiecesFailed(f"{failed} documents could not be written")


def write_documents(job: WriteJob, documents: Sequence[NewDocument]) -> None:
    """Write documents in a worker. What an earlier attempt has written counts as done."""
    by = job.opened_by
    with held(job.token, lambda: open_store(parse_url(by.url), by.store_options)) as zmap:
        for each in documents:
            replaces = ABSENT if each.present is None else None
            try:
                zmap.write(each.key, each.data, replaces=replaces)
            except Conflict:
                if bytes(zmap.read(each.key).data) != each.data:
                    raise
        zmap.flush()
