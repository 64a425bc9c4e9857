"""What the dashboard shows, as data: rows of panels, each with its queries. `dashboard.py` makes Grafana's JSON of it.

In a query, `LANES` stands for the lanes that are chosen at the top. Where the alerts look at a recorded value, so does
the panel: what an alert says is seen here.
"""

from dataclasses import dataclass

LANES = 'lane=~"$lane"'
LANE = "{{lane}}"
PLAN = "{{lane}} {{plan}}"
TOPIC = "{{lane}} {{topic}}[{{partition}}]"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One of them."""

    title: str
    #: what it says, and what is wrong when it looks bad
    text: str
    #: Grafana's name of the unit
    unit: str
    #: PromQL -> legend
    queries: dict[str, str]
    #: one number with a colour, instead of a curve
    is_number: bool = False
    #: from these values on it is yellow, red
    yellow: float | None = None
    red: float | None = None
    #: curves on top of each other
    stacked: bool = False


def number(
    title: str, text: str, unit: str, expr: str, *, yellow: float | None = None, red: float | None = None
) -> Panel:
    """One number for each lane."""
    return Panel(title=title, text=text, unit=unit, queries={expr: LANE}, is_number=True, yellow=yellow, red=red)


ROWS: dict[str, list[Panel]] = {
    "Now": [
        Panel(
            title="Lanes that do not run",
            text="0 is good. A process that does not answer is counted by its address.",
            unit="none",
            queries={
                f"count(lane:surelane_up:max{{{LANES}}} == 0) or vector(0)": "lanes",
                'count(up{job="surelane"} == 0) or vector(0)': "processes",
            },
            is_number=True,
            red=1,
        ),
        number(
            "Lag",
            "Age of the oldest message not applied.",
            "s",
            f"lane:surelane_lag_seconds:max{{{LANES}}}",
            yellow=60,
            red=900,
        ),
        number(
            "Freshness, 99 of 100",
            "From the commit at the source to what a reader of the target sees.",
            "s",
            f"lane:surelane_freshness_seconds:p99_5m{{{LANES}}}",
            yellow=30,
        ),
        number(
            "In doubt",
            "Age of the oldest prepared transaction.",
            "s",
            f"lane:surelane_in_doubt_age_seconds:max{{{LANES}}}",
            yellow=60,
            red=900,
        ),
        number(
            "In quarantine",
            "Messages that wait for an operator.",
            "none",
            f"lane:surelane_quarantine_open:sum{{{LANES}}}",
            yellow=1,
        ),
        number(
            "Newest snapshot", "Its age.", "s", f"lane:surelane_snapshot_age_seconds:min{{{LANES}}}", yellow=26 * 3600
        ),
    ],
    "Flow": [
        Panel(
            title="Messages",
            text="What became of the messages that were read: their sum is what was read.",
            unit="mps",
            queries={f"lane_outcome:surelane_messages:rate5m{{{LANES}}}": "{{lane}} {{outcome}}"},
            stacked=True,
        ),
        Panel(
            title="Lag",
            text="Age of the oldest message not applied; a straight rise is a lane that stands.",
            unit="s",
            queries={f"lane:surelane_lag_seconds:max{{{LANES}}}": LANE},
            yellow=60,
            red=900,
        ),
        Panel(
            title="Offsets that wait",
            text="By partition, and read but held for the rest of their transaction.",
            unit="none",
            queries={
                f"max by (lane, topic, partition) (surelane_lag_messages{{{LANES}}})": TOPIC,
                f"max by (lane) (surelane_held_messages{{{LANES}}})": "{{lane}} held",
            },
        ),
        Panel(
            title="Freshness",
            text="From the commit at the source to what a reader of the target sees: half, and 99 of 100 changes.",
            unit="s",
            queries={
                f"lane:surelane_freshness_seconds:p50_5m{{{LANES}}}": "{{lane}} 50%",
                f"lane:surelane_freshness_seconds:p99_5m{{{LANES}}}": "{{lane}} 99%",
            },
        ),
        Panel(
            title="Within a second",
            text="Share of the changes that a reader of the target sees within a second of the source's commit.",
            unit="percentunit",
            queries={f"lane:surelane_freshness_seconds:within_1s_ratio5m{{{LANES}}}": LANE},
        ),
        Panel(
            title="Steps of an epoch",
            text="What each step takes, on average.",
            unit="s",
            queries={f"lane_step:surelane_epoch_step_seconds:mean5m{{{LANES}}}": "{{lane}} {{step}}"},
            stacked=True,
        ),
        Panel(
            title="Epochs",
            text="A second, and those that the first plan was not enough for.",
            unit="ops",
            queries={
                f"lane:surelane_epochs:rate5m{{{LANES}}}": LANE,
                f"sum by (lane, plan) (rate(surelane_fallbacks_total{{{LANES}}}[$__rate_interval]))": PLAN,
            },
        ),
        Panel(
            title="Position",
            text="Next offset to apply: a line that does not rise while something waits is a lane that stands.",
            unit="none",
            queries={f"max by (lane, topic, partition) (surelane_position{{{LANES}}})": TOPIC},
        ),
    ],
    "The process": [
        Panel(
            title="State",
            text="1 for the state that the lane is in.",
            unit="none",
            queries={f"max by (lane, state) (surelane_state{{{LANES}}}) == 1": "{{lane}} {{state}}"},
        ),
        Panel(
            title="Restarts in 15 minutes",
            text="By cause: deaths of the worker, and attempts that failed.",
            unit="none",
            queries={f"sum by (lane, cause) (increase(surelane_restarts_total{{{LANES}}}[15m]))": "{{lane}} {{cause}}"},
        ),
        Panel(
            title="Generation, epoch",
            text="Of the lane's writer: every opening of the lane takes a new generation.",
            unit="none",
            queries={
                f"max by (lane) (surelane_generation{{{LANES}}})": "{{lane}} generation",
                f"max by (lane) (surelane_epoch{{{LANES}}})": "{{lane}} epoch",
            },
        ),
        Panel(
            title="What is known is so old",
            text="Since lag and the like were last looked at. More than seconds: Kafka or the target is away.",
            unit="s",
            queries={f"lane:surelane_monitor_age_seconds:min{{{LANES}}}": LANE},
            yellow=120,
        ),
        Panel(
            title="Memory",
            text="Of the driver's Python, without its JVM.",
            unit="bytes",
            queries={'process_resident_memory_bytes{job="surelane"}': "{{instance}}"},
        ),
    ],
    "Stage processes": [
        Panel(
            title="Connected",
            text="By the host of their executor. None where there are to be some: nothing is read.",
            unit="none",
            queries={
                f"max by (lane, host) (surelane_stage_processes{{{LANES}}})": "{{lane}} {{host}}",
                f"lane:surelane_stage_processes:sum{{{LANES}}}": "{{lane}} together",
            },
        ),
        Panel(
            title="Spans in flight",
            text="By state. Many that are staged: the target is slow. Many that wait: the processes are.",
            unit="none",
            queries={f"sum by (lane, state) (surelane_stage_spans{{{LANES}}})": "{{lane}} {{state}}"},
            stacked=True,
        ),
        Panel(
            title="Staged ahead, of stage.ahead_bytes",
            text="100% while the target is slower than what stages: then no more is read.",
            unit="percentunit",
            queries={f"lane:surelane_stage_ahead:ratio{{{LANES}}}": LANE},
        ),
        Panel(
            title="Deaths and spans for the driver in 15 minutes",
            text="Processes by the cause of their end, and spans that tasks did not stage by reason.",
            unit="none",
            queries={
                f"sum by (lane, cause) (increase(surelane_stage_deaths_total{{{LANES}}}[15m]))": "{{lane}} {{cause}}",
                f"sum by (lane, reason) (increase(surelane_stage_for_driver_total{{{LANES}}}[15m]))": (
                    "{{lane}} driver: {{reason}}"
                ),
            },
        ),
    ],
    "In doubt": [
        Panel(
            title="Prepared transactions",
            text="Of the lane: one for a moment in each epoch.",
            unit="none",
            queries={f"max by (lane) (surelane_in_doubt_transactions{{{LANES}}})": LANE},
        ),
        Panel(
            title="Age of the oldest",
            text="It holds its locks until it is answered.",
            unit="s",
            queries={f"lane:surelane_in_doubt_age_seconds:max{{{LANES}}}": LANE},
            yellow=60,
            red=900,
        ),
        Panel(
            title="Share of max_prepared_transactions",
            text="In use on the target's server, by whomever.",
            unit="percentunit",
            queries={f"lane:surelane_prepared_slots:ratio{{{LANES}}}": LANE},
            yellow=0.8,
        ),
    ],
    "Guard and quarantine": [
        Panel(
            title="Skipped in 15 minutes",
            text="By SQLSTATE class, error class, or parked behind one of its key.",
            unit="none",
            queries={
                f"sum by (lane, reason) (increase(surelane_quarantined_total{{{LANES}}}[15m]))": "{{lane}} {{reason}}"
            },
        ),
        Panel(
            title="Waiting for an operator",
            text="Entries of the quarantine, and keys whose changes wait behind one.",
            unit="none",
            queries={
                f"max by (lane, state) (surelane_quarantine_open{{{LANES}}})": "{{lane}} {{state}}",
                f"max by (lane) (surelane_guard_parked_keys{{{LANES}}})": "{{lane}} keys",
            },
        ),
        Panel(
            title="Share of what guard.breaker allows",
            text="Beyond 100% the lane stops with exit status 14.",
            unit="percentunit",
            queries={f"lane:surelane_guard_breaker:ratio{{{LANES}}}": LANE},
            yellow=0.5,
            red=1,
        ),
        Panel(
            title="Suspects",
            text="Spans that are suspected, and how often the epoch was cut to come to the part in progress.",
            unit="none",
            queries={
                f"max by (lane) (surelane_guard_suspects{{{LANES}}})": "{{lane}} suspects",
                f"max by (lane) (surelane_guard_narrowing_depth{{{LANES}}})": "{{lane}} depth",
            },
        ),
        Panel(
            title="The attempt in progress",
            text="How long it has been; guard.message_timeout ends it.",
            unit="s",
            queries={f"max by (lane) (surelane_guard_attempt_seconds{{{LANES}}})": LANE},
        ),
        Panel(
            title="Dead letters that wait",
            text="Copies of skipped messages that are not in the topic of guard.dead_letter yet.",
            unit="none",
            queries={f"max by (lane) (surelane_dead_letters_waiting{{{LANES}}})": LANE},
        ),
    ],
    "Snapshots and verify": [
        Panel(
            title="Replayable",
            text="1 while Kafka has everything that comes after the newest snapshot.",
            unit="none",
            queries={f"min by (lane) (surelane_snapshot_replayable{{{LANES}}})": LANE},
        ),
        Panel(
            title="Headroom",
            text="For so long Kafka will have that, at least.",
            unit="s",
            queries={f"min by (lane) (surelane_snapshot_headroom_seconds{{{LANES}}})": LANE},
        ),
        Panel(
            title="Age of the newest snapshot, and of the last verify",
            text="A snapshot a day and a verify a week are expected.",
            unit="s",
            queries={
                f"lane:surelane_snapshot_age_seconds:min{{{LANES}}}": "{{lane}} snapshot",
                f"lane:surelane_verify_age_seconds:min{{{LANES}}}": "{{lane}} verify",
            },
        ),
        Panel(
            title="Keys that differ",
            text="As the last verify found.",
            unit="none",
            queries={f"max by (lane) (surelane_verify_last_differences{{{LANES}}})": LANE},
            red=1,
        ),
    ],
    "The source": [
        Panel(
            title="Log held back by replication slots",
            text="Needs a postgres_exporter at the source (job source-postgres). A rise: Debezium does not read.",
            unit="bytes",
            queries={"slot:pg_replication_slots_pg_wal_lsn_diff:max": "{{instance}} {{slot_name}}"},
            yellow=5 * 1024**3,
        ),
    ],
}
