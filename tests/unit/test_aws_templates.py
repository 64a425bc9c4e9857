"""The templates of ops/aws: valid to cfn-lint, and no policy wider than it says."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.loader import load

FOLDER = Path(__file__).resolve().parents[2] / "ops/aws"
TEMPLATES = sorted(FOLDER.glob("*.yaml"))
#: what may be asked of everything, since AWS knows no narrower one
EVERYTHING = {"rds:DescribeDBSnapshots", "rds:DescribeDBInstances", "rds:ListTagsForResource"}


class _Loader(yaml.SafeLoader):
    """CloudFormation's own tags are what they hold."""


def _tag(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _tag)


def template(name: str) -> Any:
    return yaml.load((FOLDER / name).read_text(), _Loader)  # a SafeLoader with tags


def statements(value: Any) -> Iterator[dict[str, Any]]:
    """Every statement of a policy, wherever it stands."""
    if isinstance(value, dict):
        if "Effect" in value:
            yield value
        for one in value.values():
            yield from statements(one)
    elif isinstance(value, list):
        for one in value:
            yield from statements(one)


def listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_there_are_templates() -> None:
    assert [path.name for path in TEMPLATES] == ["databases.yaml", "lane.yaml", "spark.yaml"]


def test_cfn_lint_finds_nothing() -> None:
    command = [str(Path(sys.executable).with_name("cfn-lint")), "-r", "eu-central-1", "--", *map(str, TEMPLATES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("name", ["lane.yaml", "spark.yaml"])
def test_no_policy_is_wider_than_it_has_to_be(name: str) -> None:
    found = [one for one in statements(template(name)["Resources"]) if "Resource" in one]
    assert len(found) >= 6
    for one in found:
        actions, resources = listed(one["Action"]), listed(one["Resource"])
        assert one["Effect"] == "Allow"
        assert not [action for action in actions if "*" in action]
        if "*" in resources:
            assert set(actions) <= EVERYTHING
        for resource in resources:
            # `*` only behind what belongs to the lane, or to code/
            assert resource == "*" or resource.count("*") == resource.endswith("*"), resource


def test_the_lane_may_not_write_what_it_reads() -> None:
    task = template("lane.yaml")["Resources"]["TaskRole"]
    actions = {action for one in statements(task) for action in listed(one["Action"])}
    assert not {action for action in actions if action.startswith("kafka-cluster:Write")}
    assert not actions & {"kafka-cluster:CreateTopic", "rds:DeleteDBInstance", "rds:ModifyDBInstance"}


@pytest.mark.parametrize("dead_letters", ["null", '{"topic": "shop.dead"}'])
@pytest.mark.parametrize(
    "password_from", ["secretsmanager:arn:aws:secretsmanager:eu-central-1:1:secret:x", "rds-iam:eu-central-1"]
)
def test_the_tasks_environment_is_a_configuration(
    password_from: str, dead_letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled in as CloudFormation would: every key is known, and the whole is valid. No secret is among it."""
    given = {
        "Lane": "orders",
        "BootstrapServers": "b-1.msk:9098",
        "Topic": "shop.cdc",
        "AWS::Region": "eu-central-1",
        "DatabaseLogin": "surelane",
        "DatabaseHost": "shop.abc.eu-central-1.rds.amazonaws.com",
        "DatabaseName": "shop",
        "DatabaseInstance": "shop",
    }
    (container,) = template("lane.yaml")["Resources"]["Task"]["Properties"]["ContainerDefinitions"]
    assert "Secrets" not in container
    for variable in container["Environment"]:
        value = variable["Value"]
        if isinstance(value, list):
            value = dead_letters if value[0] == "DeadLetters" else password_from
        for name, text in given.items():
            value = text if value == name else value.replace(f"${{{name}}}", text)
        monkeypatch.setenv(variable["Name"], value)
    (tmp_path / "surelane.yaml").write_text("{}")
    monkeypatch.chdir(tmp_path)
    settings = load()
    (mount,) = container["MountPoints"]
    assert settings.checkpoint.startswith(f"{mount['ContainerPath']}/")
    assert settings.target.url.query["password_from"] == password_from
    assert settings.target.owner_role == "surelane_owner"
    assert (settings.guard.dead_letter is None) == (dead_letters == "null")


def test_parameters_of_the_databases() -> None:
    groups = template("databases.yaml")["Resources"]
    assert groups["Source"]["Properties"]["Parameters"]["rds.logical_replication"] == "1"
    assert groups["Target"]["Properties"]["Parameters"]["max_prepared_transactions"] == "PreparedTransactions"
    assert all(group["Properties"]["Parameters"]["rds.force_ssl"] == "1" for group in groups.values())
