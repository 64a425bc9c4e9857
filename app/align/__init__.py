"""Where epochs may end: never between the two halves of a key change (`key_changes`); with `epoch.align:
source-transaction` only where source transactions end (`transactions`); with several topics never behind a message that
unread ones of another topic may precede (`commit_order`).

Messages behind the end are held for the next epoch. So no epoch waits for a message that is still to come, and what it
applies follows from its offsets and the ends of the topics alone.
"""
