-- table_migrations
-- The numbers that were applied.
SELECT number FROM headrace_table_migration WHERE owner = :owner

-- table_migrated
-- One more was.
INSERT INTO headrace_table_migration (owner, number, name, applied_at) VALUES (:owner, :number, :name, :now)

-- relation_exists
-- Whether somebody made it.
SELECT 1 FROM sqlite_schema WHERE name = :name
