"""The table of claims."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None


def upgrade(op: Operations, table: str, schema: str | None) -> None:
    """Create it."""
    op.create_table(
        table,
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("result", sa.LargeBinary),
        schema=schema,
    )
    op.create_index(f"{table}_until", table, ["until"], schema=schema)


def downgrade(op: Operations, table: str, schema: str | None) -> None:
    """Drop it, and with it the memory of what has been done."""
    op.drop_table(table, schema=schema)
