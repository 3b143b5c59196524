"""The database: engines, tables, migrations and what differs between SQLite and PostgreSQL."""
