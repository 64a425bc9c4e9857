"""Whether the target holds what another database holds: compared table by table, by hashes of key ranges."""
