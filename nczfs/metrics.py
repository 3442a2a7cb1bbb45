"""Counters and gauges of the process, in one Prometheus registry.

Requests, bytes, decodes and copies are counted where they happen, with the children of labelled
metrics bound once, so that a count costs a lock and an addition.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY = CollectorRegistry()

STORE_REQUESTS = Counter(
    "nczfs_store_requests", "Calls into a store", ["store", "operation"], registry=REGISTRY
)
STORE_RETRIES = Counter(
    "nczfs_store_retries",
    "Repeated attempts after a transient failure",
    ["store"],
    registry=REGISTRY,
)
STORE_BYTES_READ = Counter(
    "nczfs_store_read_bytes", "Bytes of objects received from stores", ["store"], registry=REGISTRY
)
CHUNKS_DECODED = Counter("nczfs_chunks_decoded", "Decoded chunks", registry=REGISTRY)
CHUNK_BYTES_DECODED = Counter(
    "nczfs_chunk_decoded_bytes", "Bytes of decoded chunks", registry=REGISTRY
)
CHUNKS_MISSING = Counter(
    "nczfs_chunks_missing",
    "Chunks that are not in the store and read as fill values",
    registry=REGISTRY,
)
CHUNKS_STORED = Counter("nczfs_chunks_stored", "Chunks encoded and stored", registry=REGISTRY)
WRITE_CONFLICTS = Counter(
    "nczfs_write_conflicts", "Writes repeated because the object was replaced", registry=REGISTRY
)
DIRTY_BYTES = Gauge(
    "nczfs_dirty_bytes", "Decoded bytes of chunks that are not stored yet", registry=REGISTRY
)
CACHE_HITS = Counter("nczfs_cache_hits", "Chunks found in the chunk cache", registry=REGISTRY)
CACHE_MISSES = Counter("nczfs_cache_misses", "Chunks not found in the cache", registry=REGISTRY)
CACHE_EVICTIONS = Counter(
    "nczfs_cache_evictions", "Chunks evicted from the chunk cache", registry=REGISTRY
)
CACHE_BYTES = Gauge("nczfs_cache_bytes", "Decoded bytes in the chunk cache", registry=REGISTRY)
SPILL_HITS = Counter(
    "nczfs_spill_hits", "Chunks read back from disk, whole or in part", registry=REGISTRY
)
SPILLED_CHUNKS = Counter(
    "nczfs_spilled_chunks",
    "Decoded chunks written to disk because memory was full",
    registry=REGISTRY,
)
SPILL_BYTES = Gauge("nczfs_spill_bytes", "Bytes of decoded chunks on disk", registry=REGISTRY)
PREFETCHED = Counter(
    "nczfs_prefetched_windows", "Windows read ahead of a sequential reader", registry=REGISTRY
)
PAGES_PUT_BYTES = Counter(
    "nczfs_pages_put_bytes",
    "Bytes put into the kernel's page cache for readers that go backwards",
    registry=REGISTRY,
)
FUSE_REQUESTS = Counter(
    "nczfs_fuse_requests", "Requests of the kernel", ["operation"], registry=REGISTRY
)
FUSE_ERRORS = Counter(
    "nczfs_fuse_errors", "Requests answered with an error", ["errno"], registry=REGISTRY
)
FUSE_READ_BYTES = Counter("nczfs_fuse_read_bytes", "Bytes returned by reads", registry=REGISTRY)
FUSE_WRITTEN_BYTES = Counter(
    "nczfs_fuse_written_bytes", "Bytes taken from writes", registry=REGISTRY
)
FUSE_WARM_READS = Counter(
    "nczfs_fuse_warm_reads", "Reads answered from memory on the event loop", registry=REGISTRY
)
FUSE_SECONDS = Histogram(
    "nczfs_fuse_request_seconds",
    "Duration of requests that had to wait",
    ["operation"],
    buckets=(0.001, 0.01, 0.1, 1, 4, 15),
    registry=REGISTRY,
)
HIDDEN_KEYS = Counter(
    "nczfs_hidden_keys", "Keys that cannot be file names, left out of listings", registry=REGISTRY
)


def value(name: str) -> float:
    """Return the value of a metric without labels, by its name in the exposition."""
    return REGISTRY.get_sample_value(name) or 0.0


def total(name: str, **labels: str) -> float:
    """Return the sum of a metric over all labels that are not given."""
    samples = (sample for family in REGISTRY.collect() for sample in family.samples)
    return sum(
        sample.value
        for sample in samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def exposition() -> bytes:
    """Return all metrics in the Prometheus text format."""
    return generate_latest(REGISTRY)
