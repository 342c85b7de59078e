"""How the tests get a PostgreSQL and a Redis: given ones, or Debian's packages, started on private ports."""
