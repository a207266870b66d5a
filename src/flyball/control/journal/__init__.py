"""The journal: what happened, durable and in order; its tables, migrations, readers and backups."""
