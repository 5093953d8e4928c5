-- Records of the topic that cannot become rows, whole, with the reason; one row for each, however often it was read.
CREATE TABLE IF NOT EXISTS pm_dead_message (
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    reason String,
    file String,
    revision String,
    batch String,
    key String,
    value String,
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(written_at)
ORDER BY (topic, partition, offset)
