"""Savepoints as files: whole or refused, wherever they are; and what another configuration makes of them."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import RenderableType

from app.cli.rendering import Document
from app.cli.savepoint_view import (
    checked_document,
    checked_text,
    created_text,
    listed_text,
    savepoint_document,
    shown_text,
    verified_text,
)
from app.cli.upgrade import upgraded_document, upgraded_text
from app.errors import Refused
from app.savepoint.compatibility import Compatibility, compare
from app.savepoint.fingerprint import fingerprint
from app.savepoint.folder import CONTENT, SUMS, SavepointFolder
from app.savepoint.upgrading import Upgraded
from tests.documents import check_text
from tests.savepoints import ITEMS, changed, savepoint

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = SavepointFolder(tmp_path / "savepoints")
    made = savepoint(snapshot=("a-snapshot", "its sums"))
    folder.write(made)
    assert folder.get("one") == made
    assert (folder.names(), folder.problem("one")) == (["one"], None)
    assert str(tmp_path) not in (tmp_path / "savepoints/one" / CONTENT).read_text()


def test_it_may_be_moved(tmp_path: Path) -> None:
    SavepointFolder(tmp_path / "here").write(savepoint())
    (tmp_path / "there").mkdir()
    shutil.move(tmp_path / "here/one", tmp_path / "there/one")
    assert SavepointFolder(tmp_path / "there").get("one") == savepoint()


def test_another_name_is_refused(tmp_path: Path) -> None:
    folder = SavepointFolder(tmp_path)
    folder.write(savepoint())
    (tmp_path / "one").rename(tmp_path / "two")
    with pytest.raises(Refused, match="is of savepoint one"):
        folder.get("two")


def test_one_that_is_disposed_while_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SavepointFolder(tmp_path)
    folder.write(savepoint())
    folder.write(savepoint("two"))
    names = folder.names

    def then_disposed() -> list[str]:
        found = names()
        if "two" in found:
            SavepointFolder(tmp_path).dispose("two")
        return found

    monkeypatch.setattr(folder, "names", then_disposed)
    assert folder.listing() == ([savepoint()], {})
    folder.write(savepoint("two"))
    with pytest.raises(Refused, match="there is no savepoint two"):
        folder.dispose("two")


def test_a_name_is_given_once(tmp_path: Path) -> None:
    folder = SavepointFolder(tmp_path)
    folder.write(savepoint())
    with pytest.raises(Refused, match="there is a savepoint one already"):
        folder.write(savepoint())
    assert [one.name for one in tmp_path.iterdir()] == ["one"]


@given(data=st.data())
@QUICK
def test_whatever_is_cut_off_or_changed_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    folder = SavepointFolder(tmp_path)
    if "one" in folder.names():
        folder.dispose("one")
    folder.write(savepoint())
    file = tmp_path / "one" / data.draw(st.sampled_from([CONTENT, SUMS]))
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    assert folder.problem("one") is not None
    with pytest.raises(Refused, match="cannot be used"):
        folder.get("one")


@pytest.mark.parametrize("file", [CONTENT, SUMS])
def test_a_missing_file_is_noticed(tmp_path: Path, file: str) -> None:
    folder = SavepointFolder(tmp_path)
    folder.write(savepoint())
    (tmp_path / "one" / file).unlink()
    assert folder.problem("one") == f"{file}: No such file or directory"


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SavepointFolder(tmp_path)
    monkeypatch.setattr("app.savepoint.savepoint.FORMAT", 2)
    folder.write(savepoint())
    monkeypatch.undo()
    with pytest.raises(Refused, match="of format 2, this version reads 1"):
        folder.get("one")


def test_the_same_configuration() -> None:
    assert {one.compatibility for one in compare(ITEMS, changed())} == {Compatibility.SAME}
    assert fingerprint(ITEMS) == fingerprint(json.loads(json.dumps(ITEMS)))


CASES: list[tuple[dict[str, dict[str, Any]], dict[str, Compatibility]]] = [
    ({"source": {"topics": ["shop.cdc", "more"]}}, {"topics:more": Compatibility.COMPATIBLE}),
    (
        {"source": {"topics": ["more"]}},
        {"topics:more": Compatibility.COMPATIBLE, "topics:shop.cdc": Compatibility.INCOMPATIBLE},
    ),
    ({"source": {"order": "partition"}}, {"order": Compatibility.INCOMPATIBLE}),
    ({"target": {"schema": "other"}}, {"schema": Compatibility.INCOMPATIBLE}),
    ({"epoch": {"align": "source-transaction"}}, {"align": Compatibility.COMPATIBLE}),
    ({"target": {"tables": {"public.*": "shop.*"}}}, {"routes:public.*": Compatibility.LOSES}),
    (
        {"target": {"tables": {"public.*": "public.*", "more.*": "more.*"}}},
        {"routes:more.*": Compatibility.COMPATIBLE},
    ),
    (
        {"target": {"tables": {"more.*": "more.*"}}},
        {"routes:more.*": Compatibility.COMPATIBLE, "routes:public.*": Compatibility.LOSES},
    ),
    ({"target": {"keys": {"public.orders": ["code"]}}}, {"keys:public.orders": Compatibility.LOSES}),
    ({"target": {"columns": {"public.orders": {"exclude": ["note"]}}}}, {"columns:public.orders": Compatibility.LOSES}),
    ({"target": {"unknown_table": "ignore"}}, {"unknown_table": Compatibility.COMPATIBLE}),
    ({"transform": {"function": "shop:change"}}, {"transform": Compatibility.LOSES}),
    ({"sql": {"public.orders": {"where": "id > 1"}}}, {"sql:public.orders": Compatibility.LOSES}),
]


@pytest.mark.parametrize(("sections", "expected"), CASES, ids=[",".join(expected) for _, expected in CASES])
def test_another_configuration(sections: dict[str, dict[str, Any]], expected: dict[str, Compatibility]) -> None:
    results = compare(ITEMS, changed(**sections))
    assert {one.item: one.compatibility for one in results if one.compatibility is not Compatibility.SAME} == expected
    assert all(one.why for one in results if one.item in expected)
    lost = [name for name, found in expected.items() if found is Compatibility.LOSES]
    allowed = [one for one in compare(ITEMS, changed(**sections), lost) if one.blocks]
    assert [one.item for one in allowed] == [
        name for name, found in expected.items() if found is Compatibility.INCOMPATIBLE
    ]


def test_an_item_of_another_version_is_incompatible() -> None:
    found: Callable[[dict[str, Any], dict[str, Any]], list[Any]] = compare
    assert [one.item for one in found({**ITEMS, "newer": 1}, ITEMS) if one.blocks] == ["newer"]


def upgraded(*, before: str) -> Upgraded:
    return Upgraded(savepoint=savepoint(), old="surelane 1", new="surelane 2", before=before, after="0018")


@pytest.mark.parametrize(
    ("document", "text", "has"),
    [
        ({**savepoint_document(savepoint()), "folder": "/x/one"}, created_text, "one: /x/one|position shop.cdc[0]@120"),
        (
            {"directory": "/x", "savepoints": [savepoint_document(savepoint())], "broken": {"two": "half"}},
            listed_text,
            "2026-11-25 00:00:00 UTC|two: cannot be used: half|none",
        ),
        (
            savepoint_document(savepoint(snapshot=("dump", "sums"))),
            shown_text,
            "generation 3, epoch 7|2 quarantined; 1 keys wait; 1 suspects|dump|spark 4.2.0",
        ),
        ({"name": "one", "usable": False, "problem": "half"}, verified_text, "one: cannot be used: half"),
        (checked_document("one", compare(ITEMS, ITEMS)), checked_text, "topics|same"),
        (
            upgraded_document(upgraded(before="0017"), Path("a b.yaml")),
            upgraded_text,
            "lane orders: surelane 1 stopped it at shop.cdc[0]@120, savepoint one|from revision 0017 to 0018|"
            "start surelane 2: surelane run --from-savepoint one --config 'a b.yaml'",
        ),
        (upgraded_document(upgraded(before="0018"), None), upgraded_text, "as before: the old version may go on, too"),
    ],
)
def test_the_text_is_made_from_the_json(
    document: Document,
    text: Callable[[Document], Iterable[RenderableType]],
    has: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_text(document, text, has, capsys)
