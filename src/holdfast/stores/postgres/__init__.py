"""The PostgreSQL store: many hosts share the work, none of them is special."""

from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
