"""The comparison with other systems: each drains the same topic into the same tables, on one machine, in one run.

    suite    all measurements, in order
    system   the systems, and how each is started
    flink    its two jobs (java/), compiled once;  debezium: its sink on a Connect worker
    child    a peer as a child process;  target: the table that all systems write
    drain    messages/s through a backlog and their cost;  latency: milliseconds at a rate;  look: polling for both
    summary  medians of the runs;  goals: limits for them;  rows: both as tables
    report   the tables on a terminal;  page: as Markdown;  chart: a picture

One clock for all: another connection that polls the table. Figures that a system reports itself are not used.
"""
