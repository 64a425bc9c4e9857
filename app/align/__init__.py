"""Where epochs may end: not between the two halves of a changed key (`key_changes`), with `epoch.align:
source-transaction` only where source transactions end (`transactions`), and over several topics nowhere behind what is
unread in another one (`commit_order`).

What lies behind the end is held for the next epoch. So nothing waits for a message that is still to come, and what an
epoch applies follows from its offsets and from the ends of the topics alone.
"""
