"""The tables of jobs and of steps."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations, table: str, schema: str | None) -> None:
    """Create them, named after the table of claims."""
    jobs, steps = _names(table)
    op.create_table(
        jobs,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Column("cancel_requested", sa.Double),
        sa.Column("document", sa.Text, nullable=False),
        schema=schema,
    )
    op.create_table(
        steps,
        sa.Column("job", sa.Text, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("undo", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        schema=schema,
    )
    for name, column in ((jobs, "created"), (jobs, "updated"), (steps, "updated")):
        op.create_index(f"{name}_{column}", name, [column], schema=schema)


def downgrade(op: Operations, table: str, schema: str | None) -> None:
    """Drop them, and with them what is known of jobs and of steps that were finished."""
    for name in _names(table):
        op.drop_table(name, schema=schema)


def _names(claims: str) -> tuple[str, str]:
    prefix = claims.removesuffix("_claims")
    return f"{prefix}_jobs", f"{prefix}_steps"
