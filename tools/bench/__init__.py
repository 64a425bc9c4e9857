"""The benchmark: how fast a lane is on this machine, and how near to what this machine's Postgres can take.

    suite     what is measured, in which order
    servers   a stack of its own (Kafka, target Postgres) and an empty database for each measurement
    shape     what a workload is like;  tables: what is changed
    workload  the seeded changes;  backlog: the same as a topic;  pacer: the same at a steady rate
    lane      the real command as a child process
    drain     messages/s through a backlog;  latency: milliseconds at a rate;  ceiling: what Postgres alone takes
    machine   CPU seconds and memory by process, and what others used meanwhile
    peers     the same beside other systems
    costs     what a message costs as things are made larger, and what the guard costs
    restart   a lane killed under load;  burst: the end of a burst;  soak: a load for long;  short: the first two's
    command goals     what is asked of these;  page: where they write it;  lines: a picture results   JSON lines;
    report: tables for people;  comparison: ratios within the same runs

Absolute figures belong to a machine and an hour. What can be compared is the ratio to the ceiling of the same run, and
CPU seconds for a million messages.
"""
