"""All rows of the chaos suite on Apache Kafka, in the order in which they run."""

from __future__ import annotations

from chaos_row import Row
from chaos_rows_broker import BROKER_ROWS
from chaos_rows_processes import PROCESS_ROWS
from chaos_rows_records import RECORD_ROWS
from chaos_rows_redis import REDIS_ROWS
from chaos_rows_store import STORE_ROWS

ROWS: tuple[Row, ...] = (*PROCESS_ROWS, *BROKER_ROWS, *RECORD_ROWS, *REDIS_ROWS, *STORE_ROWS)


def named(name: str) -> Row:
    """The row of that name. Raises KeyError."""
    return {row.name: row for row in ROWS}[name]
