"""The report as one self-contained HTML page, styles and drawings included."""

from html import escape
from pathlib import Path

from tools.demo import report_text as words
from tools.demo.compare import Comparison, TableContent
from tools.demo.drawing import charts, figure, windows_chart
from tools.demo.history import Version
from tools.demo.outcome import DemoOutcome
from tools.demo.queries import WINDOW_SECONDS

_STYLE = Path(__file__).with_name("page.css")
HASH_CHARACTERS = 16


def page(outcome: DemoOutcome) -> str:
    title = f"Surelane demo: {'passed' if outcome.passed else 'failed'}"
    sections = (
        _tiles(outcome),
        _timeline(outcome),
        _queries(outcome),
        _history(outcome),
        _story(outcome),
        _promises(outcome),
        _tables(outcome),
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>{_header(outcome)}\n{''.join(sections)}\n{_footer(outcome)}</body></html>\n"
    )


def _header(outcome: DemoOutcome) -> str:
    style, verdict = ("good", "Killed, recovered, identical") if outcome.passed else ("bad", "A promise was broken")
    held = sum(check.ok for check in outcome.checks)
    return (
        '<header><p class="kicker">Surelane demo · exactly-once, two-phase commit</p>'
        f'<h1 class="{style}">{verdict}</h1>'
        f"<p>{held} of {len(outcome.checks)} promises held. {escape(words.load(outcome.figures))}.</p></header>"
    )


def _tiles(outcome: DemoOutcome) -> str:
    figures, back = outcome.figures, outcome.recovery
    rows, again = sum(one.target.rows for one in outcome.comparisons), words.epochs(back.replayed_epochs)
    same = sum(one.equal for one in outcome.comparisons)
    tiles = (
        (f"{same} of {len(outcome.comparisons)}", f"tables identical, {rows:,} rows"),
        (
            words.seconds(back.first_epoch_seconds),
            f"from SIGKILL to the next epoch, {back.caught_up_seconds:.1f} s to caught up",
        ),
        (
            f"{back.replayed_messages:,}",
            f"messages replayed, {again} in work at the SIGKILL",
        ),
        (words.seconds(figures.latency.p50), f"median latency, p99 {words.seconds(figures.latency.p99)}"),
        (f"{figures.rate:,.0f}/s", f"messages under load, {figures.rate_behind:,.0f}/s while catching up"),
        (f"{outcome.partial:,}", f"half epochs seen in {figures.snapshots:,} snapshots"),
    )
    drawn = "".join(f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in tiles)
    return f'<section class="tiles">{drawn}</section>'


def _timeline(outcome: DemoOutcome) -> str:
    return f"<section><h2>Timeline</h2>{charts(outcome.timeline)}</section>"


def _queries(outcome: DemoOutcome) -> str:
    found = outcome.queries
    if found is None or not found.windows:
        return ""
    note = f"{WINDOW_SECONDS} s each, by the source's commit time; {found.rows:,} rows by window and customer"
    drawing = windows_chart(found.windows, WINDOW_SECONDS)
    return f"<section><h2>A query: orders by window</h2>{figure('Orders', note, drawing)}</section>"


def _history(outcome: DemoOutcome) -> str:
    if outcome.queries is None or not outcome.queries.history.example:
        return ""
    found = outcome.queries.history
    note = f"{found.versions:,} versions of {found.orders:,} orders; order {found.example[0].order} has most"
    head = "<tr><th>customer</th><th>status</th>" + "".join(
        f'<th class="number">{name}</th>' for name in ("total", "made by offset", "seconds")
    )
    rows = "".join(_version(one) for one in found.example)
    return (
        f'<section><h2>A history</h2><p>{escape(note)}.</p><div class="scroll"><table>{head}</tr>{rows}</table></div>'
        "</section>"
    )


def _version(one: Version) -> str:
    lasted = "current" if one.seconds is None else f"{one.seconds:.3f}"
    numbers = "".join(f'<td class="number">{value}</td>' for value in (escape(one.total), f"{one.opened:,}", lasted))
    return f"<tr><td>{escape(one.customer)}</td><td>{escape(one.status)}</td>{numbers}</tr>"


def _story(outcome: DemoOutcome) -> str:
    items = "".join(
        f"<li><time>{moment.at:.1f} s</time><span>{escape(moment.words)}</span></li>" for moment in words.story(outcome)
    )
    return f'<section><h2>What happened</h2><ol class="story">{items}</ol></section>'


def _promises(outcome: DemoOutcome) -> str:
    items = "".join(
        f'<li><i class="{"good" if check.ok else "bad"}">{"✓" if check.ok else "✗"}</i><b>{escape(check.promise)}</b>'
        f"<span>{escape(check.found)}</span></li>"
        for check in outcome.checks
    )
    return f'<section><h2>Promises</h2><ul class="promises">{items}</ul></section>'


def _tables(outcome: DemoOutcome) -> str:
    rows = "".join(_row(one) for one in outcome.comparisons)
    head = '<tr><th>table</th><th class="number">rows at source</th><th class="number">rows at target</th>'
    head += "<th>md5 at source</th><th>md5 at target</th></tr>"
    return f'<section><h2>Source and target</h2><div class="scroll"><table>{head}{rows}</table></div></section>'


def _row(one: Comparison) -> str:
    def rows(content: TableContent) -> str:
        return f'<td class="number">{content.rows:,}</td>'

    style = "good" if one.equal else "bad"
    return (
        f"<tr><td>{escape(one.table)}</td>{rows(one.source)}{rows(one.target)}"
        f"<td><code>{one.source.md5[:HASH_CHARACTERS]}</code></td>"
        f'<td><code class="{style}">{one.target.md5[:HASH_CHARACTERS]}</code></td></tr>'
    )


def _footer(outcome: DemoOutcome) -> str:
    figures = outcome.figures
    return (
        "<footer><p>Measured from outside, on connections of the demo's own: the lane's own figures are not used. "
        "Latency: a row is updated at the source 20 times a second, and the time from the end of its commit until "
        "another connection to the target sees it counts, also for numbers that an epoch compacted. The figure at the "
        "top leaves out what the crash delayed: not visible at the SIGKILL, committed before the lane caught up.</p>"
        "<p>Partial epochs: each snapshot compares the transactions that wrote the visible rows with those that wrote "
        "the visible ledger rows. Hashes: md5 over all rows as text in the order of the primary key.</p>"
        f"<p>The lane: {escape(words.messages(figures))}. The shop: {escape(words.shop(figures.shop))}. "
        f"{escape(words.machine(outcome))}</p></footer>"
    )
