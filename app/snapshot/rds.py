"""`rds`: Amazon RDS makes and keeps the snapshot, and restores it as a new instance.

As with a base backup the ledger is read before and after, and prepared transactions are included. RDS gives a restored
instance the default parameter group (max_prepared_transactions 0: with a prepared transaction it would not start),
security group and subnets unless they are named. So they have to be named, and the parameter group is checked first.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.config.settings import Settings
from app.errors import ConfigInvalid, EnvironmentMissing, Refused, Unreachable
from app.private import FOLDER_MODE
from app.snapshot.driver import Restored, RestorePlace, too_few_slots
from app.snapshot.manifest import SnapshotContent
from app.snapshot.snapshot_directory import DATA, Progress, StoredSnapshot
from app.snapshot.target_info import look, looking, seen, server

#: seconds between two requests for the state of an operation, which takes minutes
LOOK_SECONDS = 10.0
#: seconds that an operation may take: the first snapshot of a large instance takes long
LONGEST_SECONDS = 24 * 3600.0
#: longest value of a tag; few characters are allowed in it
TAG_CHARACTERS = 256
_TAG = "surelane:"
_SLOTS = "max_prepared_transactions"
#: options of a URL's query that address the original
_WAY = ("host", "hostaddr", "port")


class AmazonRds:
    """The driver `rds`. See `Driver`."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._config = settings, settings.snapshots.rds
        if self._config.instance is None:
            raise ConfigInvalid(
                "snapshots.driver is rds, but the instance is not named", hint="add snapshots.rds.instance"
            )
        self._instance = self._config.instance
        self._rds = _client(self._config.region)

    def create(self, name: str, part: Path, progress: Progress) -> SnapshotContent:
        (part / DATA).mkdir(mode=FOLDER_MODE)
        with looking(self._settings) as connection:
            facts, first = server(connection), seen(connection, self._settings)
        if self._snapshot(name) is not None:
            raise Refused(
                f"RDS has a snapshot {name} already",
                hint="choose another --name. If a `create` died over it, nothing else knows it: "
                f"aws rds delete-db-snapshot --db-snapshot-identifier {name}",
            )
        tags = {"lane": self._settings.lane, "position": _in_a_tag(str(first.position))}
        with _translated(f"making snapshot {name} of instance {self._instance}"):
            self._rds.create_db_snapshot(
                DBSnapshotIdentifier=name,
                DBInstanceIdentifier=self._instance,
                Tags=[{"Key": f"{_TAG}{key}", "Value": value} for key, value in tags.items()],
            )
        made = self._wait(f"snapshot {name}", lambda: self._snapshot(name), progress)
        with looking(self._settings) as connection:
            last = seen(connection, self._settings)
        more = {"arn": made["DBSnapshotArn"], "instance": self._instance, "region": self._rds.meta.region_name}
        size = int(made.get("AllocatedStorage") or 0) << 30
        return SnapshotContent(server=facts, first=first, last=last, program="Amazon RDS", bytes=size, more=more)

    def faults(self, stored: StoredSnapshot, progress: Progress) -> list[str]:
        """Check that RDS still has the snapshot, that it is available, and that it is the same one."""
        name = stored.manifest.name
        progress(f"asking RDS for {name}")
        found = self._snapshot(name)
        if found is None:
            return [f"RDS has no snapshot {name} (any more)"]
        faults = [] if found["Status"] == "available" else [f"RDS says that it is {found['Status']}"]
        if found["DBSnapshotArn"] != stored.manifest.content.more["arn"]:
            faults.append(f"RDS has another one of this name: {found['DBSnapshotArn']}")
        return faults

    def delete(self, stored: StoredSnapshot) -> None:
        name = stored.manifest.name
        if self._snapshot(name) is not None:
            with _translated(f"deleting snapshot {name}"):
                self._rds.delete_db_snapshot(DBSnapshotIdentifier=name)

    def restore(self, stored: StoredSnapshot, destination: RestorePlace, progress: Progress) -> Restored:
        if destination.max_prepared_transactions is not None or destination.port is not None:
            hint = "it is the parameter group's: snapshots.rds.parameter_group"
            raise ConfigInvalid("--port and --max-prepared-transactions mean nothing for rds", hint=hint)
        names = self._names()
        if destination.to == self._instance:
            raise Refused(f"{destination.to} is the original", hint="name a new instance")
        existing = self._existing(destination.to)
        if existing is None:
            self._slots_suffice(stored)
            with _translated(f"restoring {stored.manifest.name} to {destination.to}"):
                self._rds.restore_db_instance_from_db_snapshot(
                    DBInstanceIdentifier=destination.to,
                    DBSnapshotIdentifier=stored.manifest.name,
                    Tags=[{"Key": f"{_TAG}restored-from", "Value": stored.manifest.name}],
                    **names,
                )
        elif _tag(existing, "restored-from") != stored.manifest.name:
            raise Refused(
                f"instance {destination.to} is there: a snapshot is never restored over anything",
                hint="name a new instance",
            )
        made = self._wait(f"instance {destination.to}", lambda: self._existing(destination.to), progress)
        there = self._settings.target.url.difference_update_query(_WAY)
        url = there.set(host=made["Endpoint"]["Address"], port=made["Endpoint"]["Port"])
        restored = look(url, self._settings, before=_tag(made, "asked") is not None)
        if restored.seen:  # from now on its position may move beyond the snapshot's
            with _translated(f"tagging {destination.to}"):
                tag = {"Key": f"{_TAG}asked", "Value": stored.manifest.name}
                self._rds.add_tags_to_resource(ResourceName=made["DBInstanceArn"], Tags=[tag])
        return restored

    def _names(self) -> dict[str, Any]:
        """Arguments for a restored instance; raises ConfigInvalid with all missing settings."""
        config = self._config
        names = {
            "parameter_group": ("DBParameterGroupName", config.parameter_group),
            "subnet_group": ("DBSubnetGroupName", config.subnet_group),
            "security_groups": ("VpcSecurityGroupIds", list(config.security_groups)),
        }
        missing = [f"snapshots.rds.{key}" for key, (_, value) in names.items() if not value]
        if missing:
            raise ConfigInvalid(
                f"a restored instance would get RDS's default instead of what is not named: {', '.join(missing)}",
                hint="name what the original has: aws rds describe-db-instances --db-instance-identifier "
                f"{self._instance}",
            )
        return dict(names.values())

    def _slots_suffice(self, stored: StoredSnapshot) -> None:
        """Check the parameter group before the restore; raises Refused if a new instance would not start."""
        group, least = str(self._config.parameter_group), stored.manifest.content.server.max_prepared_transactions
        found = 0
        with _translated(f"reading parameter group {group}"):
            for page in self._rds.get_paginator("describe_db_parameters").paginate(DBParameterGroupName=group):
                for one in page["Parameters"]:
                    value = one.get("ParameterValue") or ""
                    if one.get("ParameterName") == _SLOTS and value.isdigit():
                        found = int(value)
        if found < least:
            hint = f"set {_SLOTS} to {least} or more in {group}, or name another group"
            raise too_few_slots(f"parameter group {group} has {_SLOTS} {found}", stored, hint)

    def _snapshot(self, name: str) -> dict[str, Any] | None:
        with _translated(f"asking for snapshot {name}", missing="DBSnapshotNotFound") as answered:
            answered += self._rds.describe_db_snapshots(DBSnapshotIdentifier=name)["DBSnapshots"]
        return answered[0] if answered else None

    def _existing(self, instance: str) -> dict[str, Any] | None:
        with _translated(f"asking for instance {instance}", missing="DBInstanceNotFound") as answered:
            answered += self._rds.describe_db_instances(DBInstanceIdentifier=instance)["DBInstances"]
        return answered[0] if answered else None

    def _wait(self, what: str, look: Callable[[], dict[str, Any] | None], progress: Progress) -> dict[str, Any]:
        """Wait until it is available. Raises EnvironmentMissing if it failed, Unreachable after LONGEST_SECONDS."""
        end = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < end:
            found = look()
            status = "gone" if found is None else str(found.get("Status") or found.get("DBInstanceStatus"))
            if found is not None and status == "available":
                return found
            if status in ("gone", "failed", "incompatible-parameters", "incompatible-restore"):
                raise EnvironmentMissing(f"{what} is {status}", hint="look at its events in the console of RDS")
            percent = found.get("PercentProgress") if found else None
            progress(f"{what} is {status}" + ("" if percent is None else f", {percent} %"))
            time.sleep(LOOK_SECONDS)
        raise Unreachable(f"{what} was not made within {LONGEST_SECONDS / 3600:g} h", hint="call it again")


def _client(region: str | None) -> Any:
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise EnvironmentMissing(
            f"the driver rds needs boto3, which is not installed ({error})",
            hint=f"{sys.executable} -m pip install --require-hashes -r requirements-aws.lock",
        ) from None
    try:
        return boto3.client("rds", region_name=region)
    except BotoCoreError as error:
        hint = "name snapshots.rds.region, or set AWS_REGION"
        raise ConfigInvalid(f"AWS: {error}", hint=hint) from None


@contextmanager
def _translated(doing: str, missing: str | None = None) -> Iterator[list[dict[str, Any]]]:
    """Translate errors of AWS; an error code that begins with `missing` leaves the yielded list empty."""
    from botocore.exceptions import BotoCoreError, ClientError

    answered: list[dict[str, Any]] = []
    try:
        yield answered
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if missing is None or not code.startswith(missing):
            hint = "may this identity do it (IAM), and do snapshots.rds.* name what there is?"
            raise EnvironmentMissing(f"{doing}: {error}", hint=hint) from error
    except BotoCoreError as error:
        raise Unreachable(f"{doing}: {error}", hint="are there credentials and a way to AWS?") from error


def _tag(instance: dict[str, Any], name: str) -> str | None:
    return next((tag["Value"] for tag in instance.get("TagList", ()) if tag["Key"] == f"{_TAG}{name}"), None)


def _in_a_tag(text: str) -> str:
    """The text without the brackets and commas that a tag may not have, cut to TAG_CHARACTERS."""
    return text.replace("[", "/").replace("]", "").replace(",", "")[:TAG_CHARACTERS]
