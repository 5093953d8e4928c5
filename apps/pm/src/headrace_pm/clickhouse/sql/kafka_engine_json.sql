-- name: pm_counter_queue
-- The topic in its form json, where ClickHouse reads Kafka itself. Big blocks; one consumer for each partition is best.
CREATE TABLE IF NOT EXISTS pm_counter_queue (
    ne_id Int32,
    record_time Int64,
    duration Int32,
    counter_id Int32,
    counter_value Nullable(Float64),
    group_code String,
    rat_type String,
    cell_index Int64,
    obj_hash String,
    extra_field String,
    version UInt64,
    file String,
    revision UInt64,
    batch UInt64
)
ENGINE = Kafka
SETTINGS kafka_broker_list = '@brokers', kafka_topic_list = '@topic', kafka_group_name = '@group',
    kafka_format = 'JSONEachRow', kafka_max_block_size = 1048576, kafka_flush_interval_ms = 5000,
    kafka_handle_error_mode = 'stream', input_format_json_read_objects_as_strings = 1, precise_float_parsing = 1

-- name: pm_counter_queue_rows
-- Records that could be read become rows.
CREATE MATERIALIZED VIEW IF NOT EXISTS pm_counter_queue_rows TO pm_counter_data AS
SELECT ne_id, fromUnixTimestamp64Milli(record_time, 'UTC') AS record_time, duration, counter_id, counter_value,
    group_code, rat_type, cell_index, toFixedString(unhex(obj_hash), 8) AS obj_hash, extra_field, version
FROM pm_counter_queue WHERE length(_error) = 0

-- name: pm_counter_queue_dead
-- Records that could not be read are set aside, and stop nothing.
CREATE MATERIALIZED VIEW IF NOT EXISTS pm_counter_queue_dead TO pm_dead_message AS
SELECT _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset, _error AS reason,
    '' AS file, '' AS revision, '' AS batch, _key AS key, _raw_message AS value
FROM pm_counter_queue WHERE length(_error) > 0
