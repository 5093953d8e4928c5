-- name: pm_counter_queue
-- The topic in its form rowbinary, where ClickHouse reads Kafka itself: many rows in each record.
CREATE TABLE IF NOT EXISTS pm_counter_queue (
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
ENGINE = Kafka
SETTINGS kafka_broker_list = '@brokers', kafka_topic_list = '@topic', kafka_group_name = '@group',
    kafka_format = 'RowBinary', kafka_max_block_size = 1048576, kafka_flush_interval_ms = 5000,
    kafka_handle_error_mode = 'stream'

-- name: pm_counter_queue_rows
-- Records that could be read become rows.
CREATE MATERIALIZED VIEW IF NOT EXISTS pm_counter_queue_rows TO pm_counter_data AS
SELECT ne_id, record_time, duration, counter_id, counter_value, group_code, rat_type, cell_index, obj_hash,
    extra_field, version
FROM pm_counter_queue WHERE length(_error) = 0

-- name: pm_counter_queue_dead
-- Records that could not be read are set aside, and stop nothing.
CREATE MATERIALIZED VIEW IF NOT EXISTS pm_counter_queue_dead TO pm_dead_message AS
SELECT _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset, _error AS reason,
    _headers.value[indexOf(_headers.name, 'file')] AS file,
    _headers.value[indexOf(_headers.name, 'revision')] AS revision,
    _headers.value[indexOf(_headers.name, 'batch')] AS batch, _key AS key, _raw_message AS value
FROM pm_counter_queue WHERE length(_error) > 0
