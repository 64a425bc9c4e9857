"""The benchmarks: how fast a lane is on this machine, beside others, and at what cost.

Three tables: `peers.systems.SYSTEMS` (what is measured), `testbed.workload.Kind` (of which changes), and
`measures.MEASURES` (what of it). A measure makes rounds of `results.Task`s from the user's `plan.Plan`, and of their
results sections of a page; each measurement is a line of JSON.

    trial      a system at work, and a connection that looks;  ceiling: Postgres alone
    drain      messages/s through a backlog;  latency: milliseconds at a rate;  budget: where they go in a lane
    start      the parts of a start;  kill: a lane killed under load;  soak: a long load, and samples of it
    costs      of a message, by axes;  features: what each feature costs;  windows: a windowed count
    results    JSON lines;  groups: medians and ratios;  page: tables, goals and sections

One clock for all: another connection that polls the table. Figures that a system reports itself are not used, but for
the parts of a lane's latency. Absolute figures hold for one machine at one time; ratios are of the same runs.
"""
