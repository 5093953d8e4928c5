"""The forms of records, by the words of the setting `PM_KAFKA_FORM`."""

from __future__ import annotations

from enum import StrEnum


class RecordForm(StrEnum):
    """How counters stand in records."""

    JSON = "json"
    ROW_BINARY = "rowbinary"
