"""The tables of jobs and of steps, beside that of claims."""

from typing import Final

import sqlalchemy as sa

JOBS: Final = "amqpkit_jobs"
STEPS: Final = "amqpkit_steps"


def beside(claims: str, what: str) -> str:
    """Name the table that belongs to a table of claims: `amqpkit_claims` has `amqpkit_jobs`, `inbox` `inbox_jobs`."""
    return f"{claims.removesuffix('_claims')}_{what}"


def jobs_table(metadata: sa.MetaData, name: str = JOBS, schema: str | None = None) -> sa.Table:
    """Describe the table of jobs: columns that are asked for, and all that is known as one JSON document."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Column("cancel_requested", sa.Double),
        sa.Column("document", sa.Text, nullable=False),
        sa.Index(f"{name}_created", "created"),
        sa.Index(f"{name}_updated", "updated"),
        schema=schema,
    )


def steps_table(metadata: sa.MetaData, name: str = STEPS, schema: str | None = None) -> sa.Table:
    """Describe the table of steps: one row for each step of a job that was finished."""
    return sa.Table(
        name,
        metadata,
        sa.Column("job", sa.Text, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("undo", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Index(f"{name}_updated", "updated"),
        schema=schema,
    )
