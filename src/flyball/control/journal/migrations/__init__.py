"""The journal's schema, revision by revision (Alembic). `upgrade` brings a file up to date."""
