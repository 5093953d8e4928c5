-- name: counters_upsert
-- A row of an older version never overwrites a newer one. The guard is assigned last: assignments run left to right.
INSERT INTO pm_counter_data (ne_id, record_time, duration, counter_id, counter_value, cell_index, obj_hash, version,
    group_code, rat_type, extra_field)
VALUES (:ne_id, :record_time, :duration, :counter_id, :counter_value, :cell_index, :obj_hash, :version,
    :group_code, :rat_type, :extra_field)
ON DUPLICATE KEY UPDATE
    counter_value = IF(VALUES(version) >= version, VALUES(counter_value), counter_value),
    cell_index = IF(VALUES(version) >= version, VALUES(cell_index), cell_index),
    group_code = IF(VALUES(version) >= version, VALUES(group_code), group_code),
    extra_field = IF(VALUES(version) >= version, VALUES(extra_field), extra_field),
    version = GREATEST(VALUES(version), version)

-- name: sink_advance
-- In one transaction with the rows: no row found, and nothing of it remains.
UPDATE pm_file_sink SET next_batch = :next_batch, "rows" = :rows, digest = :digest
 WHERE file_id = :file_id AND sink = :sink AND epoch = :epoch AND next_batch <= :next_batch

-- name: sink_read
SELECT epoch, next_batch, "rows", CAST(digest AS CHAR) FROM pm_file_sink WHERE file_id = :file_id AND sink = :sink
