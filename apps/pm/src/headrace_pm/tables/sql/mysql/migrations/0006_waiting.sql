-- `left_at` is when the row was last changed as we left it: another moment is somebody's reset. `charged` is the hold that
-- was counted as a crash, until its worker says that it lives.
ALTER TABLE pm_file_claim
    ADD COLUMN left_at DATETIME(6),
    ADD COLUMN charged BIGINT,
    ADD INDEX pm_file_claim_waits (left_as, due_at)
