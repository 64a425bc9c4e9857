"""The benchmarks: how fast a lane is on this machine, beside others, and at what cost.

Three tables: `peers.systems.SYSTEMS` (what is measured), `testbed.workload.Kind` (of which changes), and the measures
below. A command (`cli.bench`) is a `report.Measure`: it makes `results.Task`s, and of their results sections of a page;
each measurement is a line of JSON.

    trial        a system at work, and a connection that looks;  ceiling: Postgres alone
    drain        messages/s through a backlog;  latency: milliseconds at a rate;  budget: where they go in a lane
    comparison   `./run bench`, `bench-peers`;  compared: its tables and goals
    costs        `./run bench-costs`: axes;  features: what each feature costs
    start        the parts of a start;  burst: the end of a burst;  restart: a lane killed under load
    soak         a long load: samples;  windows: a windowed count
    results      JSON lines;  summary: medians and ratios;  report, page, chart: what is shown

One clock for all: another connection that polls the table. Figures that a system reports itself are not used, but for
the parts of a lane's latency. Absolute figures hold for one machine at one time; ratios are of the same runs.
"""
