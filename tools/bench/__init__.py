"""The benchmarks: how fast a lane is on this machine, beside others, and at what cost.

Three tables: `systems` (what is measured), `workload.Kind` with `shape` (of which changes), `compared.MEASURES` (drain,
latency). A command makes `results.Task`s, `report` runs them and writes sections of a page; each measurement is a line
of JSON.

    systems      lanes by mode and the others: lane; flink (java/), debezium, replication; ceiling is no process
    servers      a separate stack (Kafka, Postgres) and an empty database for each measurement
    distance     a proxy between a system and its Postgres
    tables       columns and values;  shape: dimensions;  workload: seeded changes
    backlog      the changes as a topic;  pacer: at a steady rate
    drain        messages/s through a backlog;  latency: milliseconds at a rate;  budget, syncs: where they go in a lane
    child        a system as a process, and waiting for what it does;  machine: CPU, memory, load of other programs
    comparison   `./run bench`, `bench-peers`;  compared: its tables and goals
    costs        `./run bench-costs`: axes, linear;  features: what each feature costs
    burst        the end of a burst;  restart: a lane killed under load;  windows: a windowed count
    soak         a long load: samples, growth
    results      JSON lines;  summary: medians and ratios;  goals;  page, terminal, chart: what is shown

One clock for all: another connection that polls the table. Figures that a system reports itself are not used, but for
the parts of a lane's latency. Absolute figures hold for one machine at one time; ratios are of the same runs.
"""
