"""The checks of `surelane doctor`, a function each: it finds faults and their remedies, and changes nothing."""
