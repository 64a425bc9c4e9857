"""The benchmarks: how fast a lane is on this machine, and how close to the rate of this machine's Postgres alone.

    suite     all measurements, in order
    servers   a separate stack (Kafka, target Postgres) and an empty database for each measurement
    shape     dimensions of a workload;  tables: the tables that it changes
    workload  the seeded changes;  backlog: the changes as a topic;  pacer: the changes at a steady rate
    lane      the real command as a child process;  epochs: its log
    drain     messages/s through a backlog;  latency: milliseconds at a rate;  ceiling: the rate of Postgres alone
    machine   CPU seconds and memory by process, and the load of other programs meanwhile
    peers     the same for other systems
    costs     the cost of a message by size of each dimension, and the cost of the guard
    restart   a lane killed under load;  burst: the end of a burst;  short: the commands of both;  soak: a long load
    goals     limits for these;  page: the page that they write;  lines: a picture
    results   JSON lines;  report, terminal: tables for people;  comparison: ratios within the same runs

Absolute figures hold for one machine at one time. Comparable are the ratio to the ceiling of the same run, and the CPU
seconds for a million messages.
"""
