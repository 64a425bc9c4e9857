"""The demo: real servers, real clients, a lane that is killed in the middle, and a report that tells the truth.

    stage      stack, tables, lane         what is put up
    clients    pgbench, shop, probe        what works on the source
    onlookers  watch, topic, snapshots     what sees the target and the topic from outside
    play       the order of events
    outcome    checks, figures, timeline   what is concluded from what was seen
    terminal, page                         how it is shown

Nothing here is told by the lane itself but the words of its log: every figure is measured from outside, on connections
of the demo's own, with one clock.
"""
