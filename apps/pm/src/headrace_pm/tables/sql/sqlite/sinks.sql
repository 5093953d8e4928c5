-- name: counters_upsert
-- A row of an older version never overwrites a newer one.
INSERT INTO pm_counter_data (ne_id, record_time, duration, counter_id, counter_value, cell_index, obj_hash, version,
    group_code, rat_type, extra_field)
VALUES (:ne_id, :record_time, :duration, :counter_id, :counter_value, :cell_index, :obj_hash, :version,
    :group_code, :rat_type, :extra_field)
ON CONFLICT (ne_id, record_time, duration, counter_id, rat_type, obj_hash) DO UPDATE
   SET counter_value = excluded.counter_value, cell_index = excluded.cell_index, group_code = excluded.group_code,
       extra_field = excluded.extra_field, version = excluded.version
 WHERE excluded.version >= pm_counter_data.version

-- name: sink_advance
-- In one transaction with the rows: no row found, and nothing of it remains.
UPDATE pm_file_sink SET next_batch = :next_batch, "rows" = :rows, digest = :digest
 WHERE file_id = :file_id AND sink = :sink AND epoch = :epoch AND next_batch <= :next_batch

-- name: sink_read
SELECT epoch, next_batch, "rows", digest FROM pm_file_sink WHERE file_id = :file_id AND sink = :sink
