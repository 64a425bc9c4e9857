"""A replacement for Amazon RDS: moto has the calls; the address of an instance is set here."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

import app.snapshot.rds

REGION = "eu-central-1"
INSTANCE = "shop"
NAMES = {"parameter_group": "surelane-15", "subnet_group": "inside"}


class Amazon:
    """A replacement for it, with one instance."""

    def __init__(self) -> None:
        #: name of an instance -> port of the server on this machine that it is
        self.servers: dict[str, int] = {}
        self.rds = boto3.client("rds", region_name=REGION)
        ec2 = boto3.client("ec2", region_name=REGION)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"]
            for n, zone in enumerate("ab")
        ]
        self.security_group = ec2.create_security_group(GroupName="db", Description="db", VpcId=vpc)["GroupId"]
        self.rds.create_db_subnet_group(
            DBSubnetGroupName=NAMES["subnet_group"],
            DBSubnetGroupDescription="inside",
            SubnetIds=[one["SubnetId"] for one in subnets],
        )
        self.rds.create_db_parameter_group(
            DBParameterGroupName=NAMES["parameter_group"], DBParameterGroupFamily="postgres15", Description="ours"
        )
        self.rds.create_db_instance(
            DBInstanceIdentifier=INSTANCE,
            DBInstanceClass="db.m5.large",
            Engine="postgres",
            AllocatedStorage=20,
            MasterUsername="postgres",
            MasterUserPassword="only-in-moto",
        )

    def slots(self, number: int) -> None:
        """Set max_prepared_transactions."""
        parameter = {"ParameterName": "max_prepared_transactions", "ParameterValue": str(number)}
        self.rds.modify_db_parameter_group(
            DBParameterGroupName=NAMES["parameter_group"], Parameters=[parameter | {"ApplyMethod": "pending-reboot"}]
        )

    @property
    def section(self) -> dict[str, Any]:
        """For snapshots.rds."""
        return {"instance": INSTANCE, "region": REGION, "security_groups": [self.security_group], **NAMES}

    def reach(self, parsed: dict[str, Any], **_: Any) -> None:
        """Say where the servers are."""
        for one in parsed.get("DBInstances", ()):
            port = self.servers.get(one["DBInstanceIdentifier"])
            if port is not None:
                one["Endpoint"] = {"Address": "127.0.0.1", "Port": port}

    def instance(self, name: str) -> Any:
        return self.rds.describe_db_instances(DBInstanceIdentifier=name)["DBInstances"][0]

    def snapshots(self) -> list[Any]:
        return self.rds.describe_db_snapshots(DBInstanceIdentifier=INSTANCE, SnapshotType="manual")["DBSnapshots"]


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Amazon]:
    """With one instance; `servers` says on which ports others are."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.setattr(app.snapshot.rds, "LOOK_SECONDS", 0.0)
    with mock_aws():  # which also puts the default session back
        made = Amazon()
        session = boto3.Session()
        session.events.register("after-call.rds.DescribeDBInstances", made.reach)
        with monkeypatch.context() as patch:
            patch.setattr(boto3, "DEFAULT_SESSION", session)
            yield made
