"""Counters in Parquet files, one for each revision of a file: the second sink where no Kafka runs.

The only part that imports pyarrow, which takes 50 MB of memory; `headrace-pm[parquet]` has it.
"""
