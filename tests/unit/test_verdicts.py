"""docs/VERDICTS.md says what the code does: every row, and nothing is left out."""

import datetime

import psycopg2
import pytest

from app.db.sqlstate import (
    HINTS,
    LOSS_CLASSES,
    ORDER_CLASSES,
    POISON_CLASSES,
    RETRY_CLASSES,
    TIMEOUT_CLASSES,
    depends_on_order,
    may_blame,
    translated,
    verdict_of,
)
from app.errors import ServerExhausted, SurelaneError, Verdict
from app.model.activity import Activity
from app.model.death import Cause, Death
from app.poison.death_evidence import DeathEvidence, weigh
from app.spark import job_errors as of_spark
from tests.verdicts import DEATHS, POSTGRES, SPARK, SURELANE

NOW = datetime.datetime.now(datetime.UTC)
#: SQLSTATEs for which the table has no row of their own
UNLISTED = ("0A000", "28000", "3D000", "42601", "42804", "55P02", "58030", "SL001", "XX000", "ZZ001")


def refusal(code: str | None) -> psycopg2.Error:
    """An error of Postgres with this SQLSTATE."""
    return type("Refusal", (psycopg2.Error,), {"pgcode": code})()


def examples(written: str) -> list[str | None]:
    """SQLSTATEs that a row is about."""
    if written == "none":
        return [None]
    return list(UNLISTED) if written == "other" else [written.ljust(5, "0")]


def counts(error: psycopg2.Error) -> str:
    if verdict_of(error) is Verdict.POISON:
        return "attempt"
    return "loss" if may_blame(error) else "no"


def raised(error: psycopg2.Error) -> SurelaneError:
    """What it becomes."""
    with pytest.raises(SurelaneError) as found, translated("testing"):
        raise error
    return found.value


@pytest.mark.parametrize("row", POSTGRES, ids=lambda row: row["SQLSTATE"])
def test_sqlstates(row: dict[str, str]) -> None:
    for code in examples(row["SQLSTATE"]):
        error = refusal(code)
        assert row["verdict"] == verdict_of(error).value
        assert row["counts"] == counts(error)
        assert row["other plans"] == ("yes" if depends_on_order(error) else "no")
        does = {"retry": "opens again", "stop": "ends with status 9", "poison": "looks for the message"}
        assert row["the lane"].partition(";")[0] == does[row["verdict"]]
        assert ("gives up" in row["the lane"]) == isinstance(raised(error), ServerExhausted)


def test_every_class_of_the_code_has_a_row() -> None:
    listed = [row["SQLSTATE"] for row in POSTGRES]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {
        *RETRY_CLASSES,
        *LOSS_CLASSES,
        *TIMEOUT_CLASSES,
        *POISON_CLASSES,
        *ORDER_CLASSES,
        *HINTS,
        "none",
        "other",
    }


def kinds(base: type[SurelaneError] = SurelaneError) -> dict[str, type[SurelaneError]]:
    """Every error of the service by its name."""
    found = {kind.__name__: kind for kind in base.__subclasses__() if kind.__module__ == "app.errors"}
    return found | {name: kind for one in found.values() for name, kind in kinds(one).items()}


def test_every_error_has_a_row() -> None:
    listed = [row["error"] for row in SURELANE]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(kinds())


@pytest.mark.parametrize("row", SURELANE, ids=lambda row: row["error"])
def test_errors(row: dict[str, str]) -> None:
    kind = kinds()[row["error"]]
    assert (row["verdict"], row["exit status"]) == (kind.verdict.value, str(kind.exit_status.value))


COUNTS = {
    DeathEvidence.FAILURE: "attempt",
    DeathEvidence.UNEXPLAINED: "unexplained",
    DeathEvidence.MEMORY: "memory",
    DeathEvidence.NOTHING: "no",
}


@pytest.mark.parametrize("row", DEATHS, ids=lambda row: f"{row['cause']}-{row['for example']}")
def test_deaths(row: dict[str, str]) -> None:
    death = Death(cause=Cause(row["cause"]), detail=row["for example"], at=NOW, doing={"lane": Activity.DECODE.value})
    assert COUNTS[weigh(death, "lane")] == row["counts"]


def test_every_death_has_a_row() -> None:
    assert {row["cause"] for row in DEATHS} == {cause.value for cause in Cause}


def test_every_class_and_condition_of_spark_has_a_row() -> None:
    """By the name without its package; `integration/test_spark_errors.py` asks a real session for the verdicts."""
    causes = " ".join(row["cause"] for row in SPARK)
    classes = [of_spark.OFFSETS_GONE, of_spark.DAMAGED, of_spark.KAFKA_STATE[0], *of_spark.KAFKA_AWAY]
    names = [name.rpartition(".")[2] for name in classes]
    for name in (
        *names,
        *of_spark.OTHER_QUERY,
        *of_spark.STATE_UNFIT,
        of_spark.STATE_NOT_WHOLE,
        *of_spark.ROW_STATES,
        *of_spark.SURROUNDINGS_STATES,
    ):
        assert name in causes
    assert {row["error"] for row in SPARK} <= set(kinds())
