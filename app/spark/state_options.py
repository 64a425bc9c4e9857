"""Spark's options of a query with state, over those of a session that only plans."""

from app.config.queries import StateBackend, StateSettings

_STREAMING = "spark.sql.streaming"
_STORE = f"{_STREAMING}.stateStore"
#: how keys and values are written
ENCODING = f"{_STORE}.encodingFormat"
_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_ROCKSDB = {
    f"{_STORE}.providerClass": f"{_CLASSES}.RocksDBStateStoreProvider",
    # an epoch writes what it changed; snapshots are made in the background
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.rocksdb.boundedMemoryUsage": "true",
}


def state_options(state: StateSettings) -> dict[str, str]:
    """What `spark.conf` of the configuration may override."""
    own = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.shuffle.partitions": str(state.partitions),
        f"{_STREAMING}.noDataMicroBatches.enabled": "true",
    }
    if state.backend is StateBackend.ROCKSDB:
        own |= _ROCKSDB | {f"{_STORE}.rocksdb.maxMemoryUsageMB": str(max(1, state.memory_bytes >> 20))}
    return own
