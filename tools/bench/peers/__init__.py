"""The benchmark against others: every system drains the same topic into the same tables, on one machine, in one run.

    suite    what is measured, in which order
    system   what can be measured, and how each is started
    flink    its two jobs (java/), compiled once;  debezium: its sink on a Connect worker
    child    a peer as a child process;  target: the table that all of them write
    drain    messages/s through a backlog and what they cost;  latency: milliseconds at a rate;  look: their clock
    summary  medians of the runs;  goals: what they are held against;  rows: both as tables
    report   the tables on a terminal;  page: as Markdown;  chart: a picture

One clock for all: another connection that looks at the table. What a system says of itself is not asked.
"""
