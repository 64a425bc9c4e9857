"""The revisions that files are named after are those that Alembic finds."""

from alembic.script import ScriptDirectory

from app.ledger import revision


def test_the_newest_is_alembics_head() -> None:
    scripts = ScriptDirectory(str(revision.MIGRATIONS))
    assert revision.head() == scripts.get_current_head()
    for one in scripts.walk_revisions():
        found = revision.trouble(one.revision, "s")
        assert (found is None) == (one.revision == revision.head())
        assert found is None or f"is at revision {one.revision}" in found[0]


def test_one_that_is_not_known_is_newer() -> None:
    found = revision.trouble("9999", "s")
    assert found is not None
    assert "newer than this version's" in found[0]
