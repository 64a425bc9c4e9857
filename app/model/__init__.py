"""Values of the lane: names, positions, counts. Pure, frozen, no I/O."""
