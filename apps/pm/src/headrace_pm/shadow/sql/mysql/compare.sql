-- name: counters_columns
-- Two tables with other columns cannot be compared; collations decide about nothing here.
SELECT column_name, column_type, is_nullable, COALESCE(character_set_name, '') FROM information_schema.columns
 WHERE table_schema = DATABASE() AND table_name = 'pm_counter_data' ORDER BY column_name

-- name: counters_estimate
-- By the statistics of the server: it decides how much one query reads, and about nothing else.
SELECT COALESCE(table_rows, 0) FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name = 'pm_counter_data'

-- name: counters_elements
-- The primary key is skipped through: one step for each element, whatever it holds.
SELECT ne_id, MIN(record_time), MAX(record_time) FROM pm_counter_data
 WHERE ne_id BETWEEN :ne_min AND :ne_max AND record_time >= :begin AND record_time < :end
 GROUP BY ne_id

-- name: counters_digest
-- Count and digest for each element and time, in the order of the primary key, so nothing is sorted. Every row becomes
-- 64 bits, and their sum without carry does not depend on the order. A point is the bits of two floats: that is how SQL
-- says a float by its bits, at a third of the price of its digits. Whole numbers below 2^53 are exact there, so one of 64
-- bits goes in halves. What is NULL is told by a number or text that no value has. The product of two checksums is not
-- linear, as one checksum is: the same change in two rows does not cancel.
SELECT ne_id, record_time, COUNT(*),
       BIT_XOR((CRC32(CONCAT(POINT(IFNULL(counter_value, 0), counter_id + (counter_value IS NULL) * 4294967296),
                             POINT(obj_hash >> 32, obj_hash & 4294967295))) + 1)
             * (/*M! CRC32C */ /*!80017 CRC32 */ (POINT(counter_id, IFNULL(counter_value, 0)))
                ^ /*M! CRC32C */ /*!80017 CRC32 */ (CONCAT_WS(CHAR(0), duration, IFNULL(cell_index, '-'), rat_type,
                                                              group_code, IF(:extra, extra_field, NULL)))))
  FROM pm_counter_data
 WHERE ne_id BETWEEN :ne_min AND :ne_max AND (:whole OR (record_time >= :begin AND record_time < :end))
 GROUP BY ne_id, record_time

-- name: counters_of_time
-- The same for each counter of one element and time; rows are few here, so they may be hashed as text.
SELECT counter_id, COUNT(*), SUM(CAST(CONV(LEFT(MD5(CONCAT_WS(CHAR(0), duration, rat_type, obj_hash,
           HEX(POINT(IFNULL(counter_value, 0), counter_value IS NULL)), group_code,
           IFNULL(cell_index, '-'), IF(:extra, IFNULL(extra_field, '-'), ''))), 15), 16, 10) AS UNSIGNED))
  FROM pm_counter_data WHERE ne_id = :ne_id AND record_time = :record_time
 GROUP BY counter_id

-- name: counters_rows
-- The rows of one counter, the value also by its bits.
SELECT duration, rat_type, obj_hash, HEX(POINT(IFNULL(counter_value, 0), counter_value IS NULL)), counter_value,
       group_code, cell_index, IF(:extra, extra_field, '')
  FROM pm_counter_data WHERE ne_id = :ne_id AND record_time = :record_time AND counter_id = :counter_id
 ORDER BY duration, rat_type, obj_hash

-- name: element_name
SELECT name FROM ne WHERE id = :ne_id
