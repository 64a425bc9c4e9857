"""Values of a lane: names, positions, counts. Immutable, without I/O."""
