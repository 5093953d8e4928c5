-- migrate_begin
-- One at a time, and the place where the numbers are kept.
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(5216373);
    CREATE SCHEMA IF NOT EXISTS headrace;
    CREATE TABLE IF NOT EXISTS headrace.migration (
        number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
END $$;

-- migrate_drop_functions
-- All in one statement, because some are parsed and depend on others: nothing is left of a signature that has changed.
-- Nor does the store say any longer that it has them: applied by hand, what follows may fail and this be committed.
DO $$
DECLARE
    found text := (SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
                    WHERE p.pronamespace = 'headrace'::regnamespace);
BEGIN
    IF found IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || found;
    END IF;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'headrace.migration'::regclass AND attname = 'functions') THEN
        UPDATE headrace.migration SET functions = NULL;
    END IF;
END $$;

-- migrate_note
-- A migration was applied. Number and name are those of its file.
INSERT INTO headrace.migration (number, name) VALUES (%d, '%s');

-- migrate_note_functions
-- The functions were applied.
UPDATE headrace.migration SET functions = '%s' WHERE number = (SELECT max(number) FROM headrace.migration);

-- migrate_version
-- The newest migration that was applied.
SELECT coalesce(max(number), 0) FROM headrace.migration

-- migrate_functions
-- The digest of the functions that were applied with it.
SELECT functions FROM headrace.migration ORDER BY number DESC LIMIT 1
