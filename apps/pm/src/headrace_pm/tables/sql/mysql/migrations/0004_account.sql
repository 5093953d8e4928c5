-- What we left a row as tells a reset by hand; `restart` says what follows from it for the sinks of the hold that found
-- it. The version of a file's rows is that of its revision.
ALTER TABLE pm_file_claim
    ADD COLUMN left_as VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN restart TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN is_permanent BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN verdict VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin,
    DROP COLUMN version;

CREATE INDEX pm_file_claim_spool ON pm_file_claim (spool);

-- `modified` is what listings said, `fetched` the whole stamp when the file was read; both are compared with their own
-- kind only.
ALTER TABLE pm_file_revision
    ADD COLUMN fetched VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN archived_as VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    ADD COLUMN is_whole BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN counters BIGINT,
    ADD COLUMN batches INT;

-- No statement goes by it.
DROP INDEX pm_file_claim_due ON pm_file_claim
