-- name: unknown_counted
SELECT version FROM pm_unknown_counter_file
 WHERE version IN (SELECT v.version FROM JSON_TABLE(:versions, '$[*]' COLUMNS (version BIGINT PATH '$')) v)

-- name: unknown_add
-- What is compared is assigned last: assignments run from left to right.
INSERT INTO pm_unknown_counter (counter_id, seen, first_seen_at, last_seen_at, last_file)
VALUES (:counter_id, :seen, :first_seen_at, :last_seen_at, :last_file)
ON DUPLICATE KEY UPDATE
    seen = seen + VALUES(seen),
    first_seen_at = LEAST(first_seen_at, VALUES(first_seen_at)),
    last_file = IF(VALUES(last_seen_at) >= last_seen_at, VALUES(last_file), last_file),
    last_seen_at = GREATEST(last_seen_at, VALUES(last_seen_at))

-- name: unknown_list
SELECT u.counter_id, u.seen, u.first_seen_at, u.last_seen_at, u.last_file
  FROM pm_unknown_counter u
 WHERE NOT EXISTS (SELECT 1 FROM counter_cat c JOIN extra_field_column e ON e.level_id = c.object_level
                    WHERE c.counter_id = u.counter_id AND e.code = 'rat_type')
 ORDER BY u.seen DESC, u.counter_id LIMIT :count_max
