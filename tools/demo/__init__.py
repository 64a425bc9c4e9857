"""The demo: real servers and clients, a lane that is killed under load, and a report of what was measured.

    stage      stack, tables, lane         the setup
    clients    pgbench, shop, probe        write to the source
    onlookers  watch, topic, snapshots     observe the target and the topic from outside
    play       the order of events
    outcome    checks, figures, timeline   computed from the observations
    terminal, page                         show the report

Every figure is measured from outside, on the demo's own connections and with one clock; from the lane itself comes
only its log.
"""
