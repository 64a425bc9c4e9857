"""The tables of docs/VERDICTS.md."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/VERDICTS.md"


def table(heading: str) -> list[dict[str, str]]:
    """Rows of the first table below a heading, by column; a code span without its backticks."""
    below = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(names, (cell.strip("`") for cell in row), strict=True)) for row in rows]


POSTGRES = table("What Postgres says")
SURELANE = table("What Surelane says")
DEATHS = table("What a death says")
SPARK = table("What Spark says")
