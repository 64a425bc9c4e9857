"""One epoch's decoded rows: their order, the last change of each key, and their way into staging tables."""
