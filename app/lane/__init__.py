"""The lane: one ordered flow from a source position to the target, one writer."""
