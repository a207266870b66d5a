"""The first schema: events, jobs, decisions, keys, meta."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables; `schema.py` explains their columns."""
    op.create_table(
        "events",
        sa.Column("seq", LONG, primary_key=True, autoincrement=False),
        sa.Column("time_us", LONG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job", LONG),
        sa.Column("attempt", LONG),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("events_kind", "events", ["kind"])
    op.create_index("events_job", "events", ["job"])
    op.create_table(
        "jobs",
        sa.Column("id", LONG, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("array", LONG, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", LONG, nullable=False),
        sa.Column("submit_us", LONG, nullable=False),
        sa.Column("since_us", LONG, nullable=False),
        sa.Column("started_us", LONG, nullable=False),
        sa.Column("first_start_us", LONG, nullable=False),
        sa.Column("end_us", LONG, nullable=False),
        sa.Column("stopping", sa.Text, nullable=False),
        sa.Column("service_us", sa.Double, nullable=False),
        sa.Column("preemptions", LONG, nullable=False),
        sa.Column("failures", LONG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.Column("values", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
    )
    for column in ("state", "user", "tenant", "array", "submit_us", "end_us"):
        op.create_index(f"jobs_{column}", "jobs", [column])
    op.create_table(
        "decisions",
        sa.Column("number", LONG, primary_key=True, autoincrement=False),
        sa.Column("seq", LONG, nullable=False),
        sa.Column("time_us", LONG, nullable=False),
        sa.Column("seen", LONG, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("actions", LONG, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("decisions_seq", "decisions", ["seq"], unique=True)
    op.create_table(
        "keys",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("seq", LONG, nullable=False),
        sa.Column("time_us", LONG, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
