"""What a message and a byte cost, as one thing after the other is made larger; and what the guard costs.

axes     what is varied, one at a time, around one base
measure  one drain: CPU, memory, rate; what is right
verdict  does the cost grow faster than the size?
guard    the same lane with its guard and without, in turn; metering: what metrics and accounting use
section  the page's parts
suite    what is measured, in which order
"""
