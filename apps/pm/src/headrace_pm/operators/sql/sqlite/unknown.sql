-- name: unknown_counted
SELECT version FROM pm_unknown_counter_file WHERE version IN (SELECT value FROM json_each(:versions))

-- name: unknown_add
INSERT INTO pm_unknown_counter (counter_id, seen, first_seen_at, last_seen_at, last_file)
VALUES (:counter_id, :seen, :first_seen_at, :last_seen_at, :last_file)
    ON CONFLICT (counter_id) DO UPDATE SET
       seen = seen + excluded.seen,
       first_seen_at = min(first_seen_at, excluded.first_seen_at),
       last_file = CASE WHEN excluded.last_seen_at >= last_seen_at THEN excluded.last_file ELSE last_file END,
       last_seen_at = max(last_seen_at, excluded.last_seen_at)

-- name: unknown_list
SELECT u.counter_id, u.seen, u.first_seen_at AS "first [time]", u.last_seen_at AS "last [time]", u.last_file
  FROM pm_unknown_counter u
 WHERE NOT EXISTS (SELECT 1 FROM counter_cat c JOIN extra_field_column e ON e.level_id = c.object_level
                    WHERE c.counter_id = u.counter_id AND e.code = 'rat_type')
 ORDER BY u.seen DESC, u.counter_id LIMIT :count_max
