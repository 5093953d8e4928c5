ALTER TABLE pm_file_claim ADD COLUMN left_as TEXT;
ALTER TABLE pm_file_claim ADD COLUMN restart INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pm_file_claim ADD COLUMN is_permanent BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE pm_file_claim ADD COLUMN verdict TEXT;
CREATE INDEX pm_file_claim_spool ON pm_file_claim (spool) WHERE spool IS NOT NULL;
ALTER TABLE pm_file_revision ADD COLUMN fetched TEXT;
ALTER TABLE pm_file_revision ADD COLUMN archived_as TEXT;
ALTER TABLE pm_file_revision ADD COLUMN is_whole BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE pm_file_revision ADD COLUMN counters INTEGER;
ALTER TABLE pm_file_revision ADD COLUMN batches INTEGER;
-- The time of our own tables, in the form of `headrace.tables.time_text`.
CREATE VIEW pm_clock AS SELECT strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now') AS now;
