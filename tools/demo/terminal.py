"""The report on a terminal."""

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tools.demo import report_text as words
from tools.demo.compare import Comparison
from tools.demo.outcome import DemoOutcome

#: characters of a hash that are shown
HASH_CHARACTERS = 8


def show(outcome: DemoOutcome, console: Console) -> None:
    verdict = Text("The target is what the source is: every promise held.", style="bold green")
    if not outcome.passed:
        verdict = Text("A promise was broken: see the lines marked ✗.", style="bold red")
    console.print(Group("", _tables(outcome.comparisons), "", _figures(outcome), "", _checks(outcome), "", verdict))


def _tables(comparisons: tuple[Comparison, ...]) -> Table:
    table = Table("table", title="Source and target", title_justify="left", title_style="bold")
    for name in ("rows: source", "target"):
        table.add_column(name, justify="right")
    for name in ("md5: source", "target"):
        table.add_column(name)
    for one in comparisons:
        hashes = [content.md5[:HASH_CHARACTERS] for content in (one.source, one.target)]
        same = Text(hashes[1], style="green" if one.equal else "bold red")
        table.add_row(one.table, f"{one.source.rows:,}", f"{one.target.rows:,}", hashes[0], same)
    return table


def _figures(outcome: DemoOutcome) -> Table:
    figures, back = outcome.figures, outcome.recovery
    table = Table(show_header=False, title="Figures", title_justify="left", title_style="bold")
    for name, value in (
        ("load", words.load(figures)),
        ("the shop", words.shop(figures.shop)),
        ("messages", words.messages(figures)),
        ("rate", f"{figures.rate:,.0f} messages/s under load, {figures.rate_behind:,.0f}/s while catching up"),
        ("latency", f"{words.latency(figures.latency)} (source commit to visible)"),
        ("with the crash", words.latency(figures.latency_with_crash)),
        ("crash", words.in_work(outcome.crash)),
        ("settled", words.settled(back)),
        ("went on", back.decision),
        ("replayed", words.replayed(back)),
        ("recovery", words.recovery(back)),
        ("machine", words.machine(outcome)),
    ):
        table.add_row(name, Text(value))
    return table


def _checks(outcome: DemoOutcome) -> Table:
    table = Table("", "promise", "found", title="Promises", title_justify="left", title_style="bold")
    for check in outcome.checks:
        mark = Text("✓", style="green") if check.ok else Text("✗", style="bold red")
        table.add_row(mark, check.promise, Text(check.found, style="" if check.ok else "red"))
    return table
