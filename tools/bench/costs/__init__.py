"""The cost of a message and a byte as one dimension at a time grows, and the cost of the guard.

axes     the dimensions, varied one at a time around one base
measure  one drain: CPU, memory, rate, and whether the table is right
verdict  whether the cost grows faster than the size
guard    the same lane with and without its guard, alternately; the timed cost of guard, metrics and accounting
section  the parts of the page
suite    all measurements, in order
"""
