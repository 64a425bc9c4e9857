"""Snapshots that Amazon RDS makes: the calls against moto, the ledger on a real target."""

import sys
from typing import Any

import pytest

from app.errors import ExitStatus
from tests.fix_bare_lane import TOPIC
from tests.fix_doubt import EPOCH, LANE
from tests.fix_rds import INSTANCE, NAMES, REGION, Amazon
from tests.fix_snapshot import Snapshotting


@pytest.fixture
def amazon(snapshotting: Snapshotting, amazon: Amazon) -> Amazon:
    """The lane's snapshots are its."""
    snapshotting.configure(driver="rds", rds=amazon.section)
    return amazon


def configure(snapshotting: Snapshotting, **rds: Any) -> None:
    snapshotting.configure(driver="rds", rds={"instance": INSTANCE, "region": REGION} | rds)


def test_made_listed_verified_deleted(snapshotting: Snapshotting, amazon: Amazon) -> None:
    made = snapshotting.json("create", "--name", "one")
    assert (made["driver"], made["exact"], made["position"]) == ("rds", False, {TOPIC.topic: {"0": EPOCH}})
    (kept,) = amazon.snapshots()
    assert (kept["DBSnapshotIdentifier"], kept["Status"]) == ("one", "available")
    tags = {tag["Key"]: tag["Value"] for tag in kept["TagList"]}
    assert tags == {"surelane:lane": LANE, "surelane:position": f"made-up/0@{EPOCH}"}
    assert made["more"] == {"arn": kept["DBSnapshotArn"], "instance": INSTANCE, "region": REGION}
    assert [one["name"] for one in snapshotting.json("list")["snapshots"]] == ["one"]
    assert snapshotting.json("verify", "one")["sound"]
    amazon.rds.delete_db_snapshot(DBSnapshotIdentifier="one")
    ended = snapshotting("verify", "one", "--json")
    assert (ended.status, ended.json["faults"]) == (ExitStatus.DIFFERENT, ["RDS has no snapshot one (any more)"])
    assert snapshotting("delete", "one", "--yes").status == 0
    snapshotting.json("create", "--name", "two")
    assert snapshotting.json("create", "--name", "three", "--keep", "1")["deleted"] == ["two"]
    assert [one["DBSnapshotIdentifier"] for one in amazon.snapshots()] == ["three"]


def test_restored(snapshotting: Snapshotting, amazon: Amazon) -> None:
    snapshotting.json("create", "--name", "one")
    amazon.slots(64)
    first, report = (snapshotting.json("restore", "one", "--to", "shop-restored") for _ in range(2))
    assert first == report
    assert report["position"] is None
    assert report["trouble"].startswith("reading what was restored")
    made = amazon.instance("shop-restored")
    assert made["Endpoint"]["Address"] in report["url"]
    assert [one["DBParameterGroupName"] for one in made["DBParameterGroups"]] == [NAMES["parameter_group"]]
    assert made["DBSubnetGroup"]["DBSubnetGroupName"] == NAMES["subnet_group"]
    assert [one["VpcSecurityGroupId"] for one in made["VpcSecurityGroups"]] == [amazon.security_group]
    assert "call restore again to read it" in snapshotting("restore", "one", "--to", "shop-restored").out


def test_its_ledger_is_read(snapshotting: Snapshotting, amazon: Amazon) -> None:
    snapshotting.json("create", "--name", "one")
    amazon.slots(64)
    port = snapshotting.target.engine.url.port
    assert port is not None
    amazon.servers["shop-restored"] = port
    report = snapshotting.json("restore", "one", "--to", "shop-restored")
    assert (report["position"], report["before"]) == ({TOPIC.topic: {"0": EPOCH}}, False)
    (listed,) = snapshotting.json("list")["snapshots"]
    assert (listed["exact"], listed["actual"]["lanes"][0]["epoch"]) == (True, 0)
    assert snapshotting.json("restore", "one", "--to", "shop-restored")["before"]


def test_names_that_are_missing(snapshotting: Snapshotting, amazon: Amazon) -> None:
    snapshotting.json("create", "--name", "one")
    configure(snapshotting, subnet_group="inside")
    ended = snapshotting("restore", "one", "--to", "shop-restored")
    assert ended.status == ExitStatus.CONFIG
    assert "snapshots.rds.parameter_group, snapshots.rds.security_groups" in ended.err
    assert "subnet_group" not in ended.err
    assert "describe-db-instances" in ended.err
    snapshotting.configure(driver="rds")
    ended = snapshotting("create")
    assert (ended.status, "snapshots.rds.instance" in ended.err) == (ExitStatus.CONFIG, True)
    configure(snapshotting, instance="other")
    ended = snapshotting("create", "--name", "two")
    assert (ended.status, "other" in ended.err) == (ExitStatus.ENVIRONMENT, True)
    assert [one["name"] for one in snapshotting.json("list")["snapshots"]] == ["one"]


def test_too_few_slots(snapshotting: Snapshotting, amazon: Amazon) -> None:
    snapshotting.json("create", "--name", "one")
    for number in (None, 10):
        if number is not None:
            amazon.slots(number)
        ended = snapshotting("restore", "one", "--to", "shop-restored")
        assert ended.status == ExitStatus.REFUSED
        assert f"parameter group surelane-15 has max_prepared_transactions {number or 0}" in ended.err
        assert "64 or more" in ended.err
    assert [one["DBInstanceIdentifier"] for one in amazon.rds.describe_db_instances()["DBInstances"]] == [INSTANCE]


def test_never_over_anything(snapshotting: Snapshotting, amazon: Amazon) -> None:
    snapshotting.json("create", "--name", "one")
    amazon.slots(64)
    snapshotting.json("restore", "one", "--to", "shop-restored")
    snapshotting.json("create", "--name", "two")
    amazon.rds.create_db_snapshot(DBSnapshotIdentifier="three", DBInstanceIdentifier=INSTANCE)
    ended = snapshotting("create", "--name", "three")
    assert (ended.status, "delete-db-snapshot" in ended.err) == (ExitStatus.REFUSED, True)
    for name, to in (("one", INSTANCE), ("two", "shop-restored")):
        assert snapshotting("restore", name, "--to", to).status == ExitStatus.REFUSED


def test_without_boto3(snapshotting: Snapshotting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    configure(snapshotting)
    ended = snapshotting("create")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "requirements-aws.lock" in ended.err
    assert snapshotting.json("create", "--driver", "dump")
