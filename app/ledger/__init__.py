"""The ledger: what the target database itself knows about its lanes."""
