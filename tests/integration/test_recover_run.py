"""`surelane recover run`: a lost target comes back, however often the recovery itself is killed."""

import pytest

from tests.fix_recover import MakeLost


@pytest.mark.parametrize("driver", ["basebackup", "dump"])
def test_it(driver: str, lost: MakeLost) -> None:
    made = lost(driver)
    ended = made(*made.to)
    assert ended.status == 0, ended.err
    print(ended.out)
    made.questions()
