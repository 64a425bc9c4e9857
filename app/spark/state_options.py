"""Spark's options of a query with state, over those of a session that only plans."""

from app.config.queries import StateBackend, StateSettings

_STREAMING = "spark.sql.streaming"
_STORE = f"{_STREAMING}.stateStore"
#: how keys and values are written
ENCODING = f"{_STORE}.encodingFormat"
_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_PROVIDER = f"{_STORE}.providerClass"
_MEMORY = {_PROVIDER: f"{_CLASSES}.HDFSBackedStateStoreProvider"}
_ROCKSDB = {
    _PROVIDER: f"{_CLASSES}.RocksDBStateStoreProvider",
    # an epoch writes what it changed; snapshots are made in the background
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.rocksdb.boundedMemoryUsage": "true",
}
#: environment of the JVM: what RocksDB frees in one thread is used again by another one. By default the C library keeps
#: it for some of the threads
ALLOCATION = {"MALLOC_ARENA_MAX": "2"}


def state_options(state: StateSettings) -> dict[str, str]:
    """What `spark.conf` of the configuration may override."""
    own = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.shuffle.partitions": str(state.partitions),
        f"{_STREAMING}.noDataMicroBatches.enabled": "true",
    }
    if state.backend is StateBackend.MEMORY:
        return own | _MEMORY
    return own | _ROCKSDB | {f"{_STORE}.rocksdb.maxMemoryUsageMB": str(max(1, state.memory_bytes >> 20))}
