-- name: setting_value
SELECT value FROM scheduler_settings WHERE name = :name;

-- name: setting_record
-- The first one counts.
INSERT INTO scheduler_settings (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING;

-- name: setting_change
UPDATE scheduler_settings SET value = :value WHERE name = :name AND value = :before;

-- name: answers
SELECT value FROM scheduler_settings WHERE name = 'buckets';

-- name: writes
-- A write to a row that nothing else reads: whether the tables can be written.
INSERT INTO scheduler_settings (name, value) VALUES ('written', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
