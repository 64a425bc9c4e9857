"""The timeline as four charts on one time axis; each has the crash and the recovery in the background."""

from collections.abc import Sequence
from html import escape

from tools.demo.chart import Frame, linear, logarithmic
from tools.demo.timeline import Timeline

#: seconds; lower latencies are drawn at the bottom
LOWEST_LATENCY = 0.01
EPOCHS_HEIGHT = 34
AXIS_HEIGHT = 22
#: labels that fit on the axis on a phone
AXIS_LABELS = 7
AXIS_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1800)
#: the rate chart shows at most this multiple of the load's highest rate
RATE_HEADROOM = 3


def charts(line: Timeline) -> str:
    frame = Frame(seconds=line.seconds, backdrop=_backdrop(line))
    return "".join(
        (
            figure("Rate, messages a second", _rate_key(), _headings(frame, line) + _rate(frame, line)),
            figure("Lag, messages", "in the topic and not at the target", _lag(frame, line)),
            figure("Latency, logarithmic", "by the time of the source's commit", _latency(frame, line)),
            figure("Epochs", _generations(line), _epochs(frame, line)),
            _axis(frame),
        )
    )


def windows_chart(windows: Sequence[tuple[float, float]], width: float) -> str:
    """Orders of each window; `windows`: start in seconds since 1970, orders; `width`: seconds of a window."""
    first, last = windows[0][0], windows[-1][0] + width
    # a bar is as wide as a second of the time shown
    shown = Frame(seconds=max(1.0, (last - first) / width), backdrop="")
    series = tuple(((start - first) / width, orders) for start, orders in windows)
    scale = linear([orders for _, orders in series])
    return shown.chart("orders of each window", scale, shown.bars(series, scale, "applied"))


def _rate(frame: Frame, line: Timeline) -> str:
    """The rate while catching up is cut off, with its peak as text: it would flatten the rest of the chart."""
    usual = RATE_HEADROOM * max((value for _, value in line.produced), default=1.0)
    scale = linear([value for _, value in (*line.produced, *line.applied)], usual)
    shapes = frame.bars(line.applied, scale, "applied") + frame.steps(line.produced, scale, "produced")
    return frame.chart("messages a second", scale, shapes, frame.peak(line.applied, scale))


def _rate_key() -> str:
    return _key(("produced", "into the topic"), ("applied", "visible at the target"))


def _lag(frame: Frame, line: Timeline) -> str:
    scale = linear([value for _, value in line.lag])
    return frame.chart("lag in messages", scale, frame.area(line.lag, scale, "lag"))


def _latency(frame: Frame, line: Timeline) -> str:
    scale = logarithmic([value for _, value in line.latency], LOWEST_LATENCY)
    return frame.chart("latency in seconds", scale, frame.area(line.latency, scale, "latency"))


def figure(title: str, note: str, drawing: str) -> str:
    """A chart with its title."""
    return f"<figure><figcaption><b>{title}</b> <span>{note}</span></figcaption>{drawing}</figure>"


def _key(*entries: tuple[str, str]) -> str:
    return "".join(f'<i class="swatch {style}"></i>{escape(words)} ' for style, words in entries)


def _backdrop(line: Timeline) -> str:
    """Marks the time without epochs, the time of catching up, the crash and the end of the load."""
    frame = Frame(seconds=line.seconds, backdrop="")
    down, behind = frame.percent(line.first_epoch - line.killed), frame.percent(line.caught_up - line.first_epoch)
    killed, ended = frame.percent(line.killed), frame.percent(line.load_ended)
    return (
        f'<rect class="down" x="{killed}" width="{down}" y="0" height="100%"/>'
        f'<rect class="behind" x="{frame.percent(line.first_epoch)}" width="{behind}" y="0" height="100%"/>'
        f'<line class="ended" x1="{ended}" x2="{ended}" y1="0" y2="100%"/>'
        f'<line class="killed" x1="{killed}" x2="{killed}" y1="0" y2="100%"/>'
    )


def _headings(frame: Frame, line: Timeline) -> str:
    """Labels of the backdrop."""
    anchor, shift = ("end", -5) if line.caught_up > 0.8 * line.seconds else ("start", 5)
    return (
        '<svg class="headings" width="100%" height="18" aria-hidden="true">'
        f'<text class="killed" x="{frame.percent(line.killed)}" dx="-5" y="13" text-anchor="end">SIGKILL</text>'
        f'<text class="down" x="{frame.percent((line.killed + line.first_epoch) / 2)}" y="13" text-anchor="middle">'
        f"{line.first_epoch - line.killed:.1f} s</text>"
        f'<text x="{frame.percent(line.caught_up)}" dx="{shift}" y="13" text-anchor="{anchor}">caught up</text></svg>'
    )


def _generations(line: Timeline) -> str:
    first = line.epochs[0].generation if line.epochs else 0
    styles = {tick.generation: _style(tick.generation, first) for tick in line.epochs}
    return _key(*((style, f"generation {generation}") for generation, style in styles.items()))


def _style(generation: int, first: int) -> str:
    return "before" if generation == first else "after"


def _epochs(frame: Frame, line: Timeline) -> str:
    """A tick for each epoch; its height grows with the root of the number of messages."""
    largest = max((tick.messages for tick in line.epochs), default=1) or 1
    ticks = []
    for tick in line.epochs:
        height = 8 + (EPOCHS_HEIGHT - 12) * (tick.messages / largest) ** 0.5
        words = f"epoch {tick.epoch} of generation {tick.generation}: {tick.messages:,} messages, {tick.plan}"
        style, x = _style(tick.generation, line.epochs[0].generation), frame.percent(tick.at)
        ticks.append(
            f'<rect class="tick {style}" x="{x}" width="2" y="{EPOCHS_HEIGHT - height:.1f}" height="{height:.1f}">'
            f"<title>{escape(words)}</title></rect>"
        )
    return (
        f'<svg class="plot" role="img" aria-label="epochs" width="100%" height="{EPOCHS_HEIGHT}">'
        f"{frame.backdrop}{''.join(ticks)}</svg>"
    )


def _axis(frame: Frame) -> str:
    """The time axis, in seconds since the load began."""
    step = next((step for step in AXIS_STEPS if frame.seconds / step <= AXIS_LABELS), AXIS_STEPS[-1])
    labels = [
        f'<text x="{frame.percent(second)}" y="15" text-anchor="{"middle" if second else "start"}">{second} s</text>'
        for second in range(0, int(frame.seconds * 0.97), step)
    ]
    return f'<svg class="axis" width="100%" height="{AXIS_HEIGHT}" aria-hidden="true">{"".join(labels)}</svg>'
