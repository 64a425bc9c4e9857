"""Guard: what a suspect is suspected for, how often the message failed alone, and whether a control has passed."""

from alembic import op

from app.db.sql import run

revision = "0014"
down_revision = "0013"

_STAGES = "'epoch', 'decode', 'message', 'transform', 'apply', 'memory', 'assemble', 'control'"

DDL = f"""
alter table attempt drop constraint attempt_stage_check;
alter table attempt add constraint attempt_stage_check check (stage in ({_STAGES}));
alter table suspect drop constraint suspect_stage_check;
alter table suspect add constraint suspect_stage_check check (stage in ({_STAGES}));
alter table suspect
    add deaths           int not null default 0,       -- of `attempts`: those that ended the process
    add unexplained      int not null default 0,       -- deaths whose cause is not known; they condemn nothing
    add alone            int not null default 0,       -- failures of this message by itself, whatever they count for
    add controlled       boolean not null default false,  -- other work has passed since the last failure but one
    add control_failures int not null default 0;
"""
QUARANTINE = """
alter table quarantine add alone int not null default 0;  -- failures of this message by itself
alter table quarantine drop constraint quarantine_stage_check;
alter table quarantine add constraint quarantine_stage_check
    check (stage in ('decode', 'transform', 'apply', 'epoch', 'memory', 'process'));
"""


def upgrade() -> None:
    """Change the tables in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL + QUARANTINE)
