ALTER TABLE pm_file_claim ADD COLUMN left_at TEXT;
ALTER TABLE pm_file_claim ADD COLUMN charged INTEGER;
CREATE INDEX pm_file_claim_waits ON pm_file_claim (left_as, due_at);
