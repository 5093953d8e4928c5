-- Which functions a store has: the digest of those that were applied with its newest migration.
ALTER TABLE headrace.migration ADD COLUMN functions text COLLATE "C";
