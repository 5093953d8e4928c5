-- migrate_begin
-- One at a time, and the place where the numbers are kept.
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(5216373);
    CREATE SCHEMA IF NOT EXISTS headrace;
    CREATE TABLE IF NOT EXISTS headrace.migration (
        number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
END $$

-- migrate_note
-- A migration was applied.
INSERT INTO headrace.migration (number, name) VALUES (%s, %s)
