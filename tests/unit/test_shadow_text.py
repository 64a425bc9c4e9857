"""The texts of `surelane shadow` are made from what `--json` prints."""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from rich.console import RenderableType

from app.cli.rendering import Document
from app.cli.shadow import (
    created_document,
    created_text,
    disposed_document,
    disposed_text,
    status_document,
    status_text,
    switched_document,
    switched_text,
    undone_text,
)
from app.ledger.shadow_copies import ShadowCopy, ShadowState
from app.model.offsets import Offsets, TopicPartition
from app.shadow.creating import Created
from app.shadow.switching import ShadowStatus, Switched
from tests.documents import check_text


def copy(state: ShadowState = ShadowState.FOLLOWING) -> ShadowCopy:
    return ShadowCopy(
        lane="orders-v2",
        original="orders",
        savepoint="before",
        copy_schema="v2",
        old_schema="v2_old",
        old_tables=[("public", "orders")],
        new_tables=[("public", "orders")],
        state=state,
        by="operator@here",
        at=datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC),
    )


def elsewhere() -> ShadowCopy:
    return replace(copy(), copy_schema=None, old_schema=None, url="postgresql://there/shop")


def at(offset: int) -> Offsets:
    return Offsets.of({TopicPartition("shop.cdc", 0): offset})


def status(state: ShadowState) -> Document:
    return status_document("orders", ShadowStatus(copy=copy(state), original=at(120), position=at(100)))


SWITCHED = Switched(copy=copy(ShadowState.SWITCHED), original=at(120), position=at(130), paused_seconds=1.234)
CREATED = Created(copy=copy(), position=at(120), rows={"public.orders": 1200}, left_out=["trigger t of public.orders"])


@pytest.mark.parametrize(
    ("document", "text", "has"),
    [
        (
            created_document(CREATED, "new.yaml"),
            created_text,
            "public.orders: 1,200 rows|not made: trigger t of public.orders|surelane run --config new.yaml",
        ),
        (status_document("orders", None), status_text, "lane orders has no part in a shadow copy"),
        (
            status(ShadowState.FOLLOWING),
            status_text,
            "lane orders-v2 follows lane orders in schema v2, 20 offsets behind",
        ),
        (status(ShadowState.SWITCHED), status_text, "has the place of lane orders, whose tables are in schema v2_old"),
        (status(ShadowState.DISPOSED), status_text, "whose tables were dropped"),
        (switched_document(SWITCHED), switched_text, "lane orders-v2 writes public.orders|for 1.2 s|in schema v2_old"),
        (switched_document(SWITCHED), undone_text, "lane orders has its tables again: start it|follows in schema v2"),
        (
            switched_document(replace(SWITCHED, copy=elsewhere())),
            switched_text,
            "its tables are where they were|the tables are read from postgresql://there/shop now",
        ),
        (disposed_document(elsewhere(), []), disposed_text, "dropped: no table"),
        (disposed_document(copy(), ['"v2"."orders"']), disposed_text, 'dropped: "v2"."orders"'),
    ],
)
def test_the_text_is_made_from_the_json(
    document: Document,
    text: Callable[[Document], Iterable[RenderableType]],
    has: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_text(document, text, has, capsys)
