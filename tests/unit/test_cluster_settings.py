"""What resident tasks want of a Spark session."""

import os
from collections.abc import Mapping

import pytest

from app.config.settings import Settings
from app.errors import ConfigInvalid
from app.spark.cores import cores
from app.spark.session_options import SECRET
from app.worker.session_resources import USUAL_TASKS, check_channel, tasks_of, variables_of_tasks

STANDALONE = "spark://master:7077"


def settings(master: str, tasks: int | None = None, **conf: str) -> Settings:
    return Settings.of(
        {
            "lane": "a",
            "source": {"bootstrap_servers": "localhost:9092", "topics": ["t"]},
            "target": {"url": "postgresql+psycopg2://u@localhost/d"},
            "spark": {"master": master, "conf": conf},
            "stage": {"tasks": tasks},
        }
    )


@pytest.mark.parametrize(
    ("master", "conf", "wanted"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3, 2]", {}, 3),
        ("local[4]", {"spark.task.cpus": "2"}, 2),
        (STANDALONE, {}, None),
        (STANDALONE, {"spark.cores.max": "6"}, 6),
        ("yarn", {}, 2),
        ("yarn", {"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ("k8s://https://host", {"spark.dynamicAllocation.enabled": "true"}, None),
        ("mesos://host", {}, None),
    ],
)
def test_cores(master: str, conf: Mapping[str, str], wanted: int | None) -> None:
    assert cores(master, conf) == wanted


@pytest.mark.parametrize(
    ("master", "conf", "configured", "wanted"),
    [
        ("local[1]", {}, None, 1),
        ("local[3]", {}, None, 2),
        ("local[3]", {}, 3, 3),
        ("local[64]", {}, None, USUAL_TASKS),
        (STANDALONE, {}, None, USUAL_TASKS),
        (STANDALONE, {}, 20, 20),
        (STANDALONE, {"spark.cores.max": "2"}, None, 2),
    ],
)
def test_how_many_tasks(master: str, conf: dict[str, str], configured: int | None, wanted: int) -> None:
    assert tasks_of(settings(master, configured, **conf)) == wanted


def test_a_container_has_fewer_cores_than_its_machine() -> None:
    assert tasks_of(settings("local[*]"), processors=2) == 1
    with pytest.raises(ConfigInvalid):
        tasks_of(settings("local[*]", 3), processors=2)


@pytest.mark.parametrize(("master", "conf"), [("local[2]", {}), (STANDALONE, {"spark.cores.max": "2"})])
def test_more_tasks_than_cores_are_refused(master: str, conf: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match=r"stage\.tasks: 3, but Spark at .* 2 cores") as refused:
        tasks_of(settings(master, 3, **conf))
    assert refused.value.hint is not None
    assert "stage.tasks: 2 or less" in refused.value.hint


@pytest.mark.parametrize(
    ("master", "conf", "problem"),
    [
        ("local[2]", {"spark.authenticate": "false"}, None),
        (STANDALONE, {SECRET: "s"}, None),
        (STANDALONE, {}, "takes any connection"),
        (STANDALONE, {SECRET: "s", "spark.authenticate": "false"}, "takes any connection"),
        (STANDALONE, {SECRET: "s", "spark.network.crypto.enabled": "false"}, "is not encrypted"),
        (STANDALONE, {SECRET: "s", "spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "true"}, None),
        ("yarn", {}, None),
    ],
)
def test_passwords_need_a_protected_channel(master: str, conf: dict[str, str], problem: str | None) -> None:
    if problem is None:
        check_channel(settings(master, None, **conf))
        return
    with pytest.raises(ConfigInvalid, match=problem):
        check_channel(settings(master, None, **conf))


@pytest.mark.parametrize(("master", "more"), [("local[2]", {}), (STANDALONE, {"PGPASSWORD": "p", "AWS_REGION": "r"})])
def test_what_tasks_log_in_with(master: str, more: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of this machine have most of it."""
    here = {"PGPASSWORD": "p", "AWS_REGION": "r", "HOME": "/home/me", "SURELANE_SPARK__CONF": "{}"}
    monkeypatch.setattr(os, "environ", here)
    assert variables_of_tasks(settings(master)) == {**more, "SURELANE_SPARK__CONF": "{}"}
