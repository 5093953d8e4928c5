-- Counters, read with FINAL: of rows with one key the highest version counts, wherever and however often it was written.
-- The sorting key is the whole natural key, and the month follows from it: two versions of a row always meet.
-- A repeated block is recognised by its token among so many blocks before it. A block that was answered is on disk.
CREATE TABLE IF NOT EXISTS pm_counter_data (
    ne_id Int32,
    record_time DateTime64(3, 'UTC'),
    duration Int32,
    counter_id Int32,
    counter_value Nullable(Float64),
    group_code LowCardinality(String),
    rat_type LowCardinality(String),
    cell_index Int64,
    obj_hash FixedString(8),
    extra_field String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(record_time)
ORDER BY (ne_id, record_time, duration, counter_id, rat_type, obj_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
