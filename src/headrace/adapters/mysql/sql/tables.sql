-- session
-- One meaning of statements and times for every session.
SET SESSION sql_mode = %s, time_zone = '+00:00', innodb_lock_wait_timeout = %s

-- session_isolation
-- Each statement sees what is committed, rows that it looked at and did not change are not locked, and decisions are
-- checked by the number of rows they change.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED

-- session_found
-- What the server takes at once, and whether it heard us: poolers swallow such statements.
SELECT @@max_allowed_packet, @@sql_mode

-- unit_table
-- One row for every unit that is not repeatable: so a repeat is known.
CREATE TABLE IF NOT EXISTS headrace_unit (
    unit_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    applied_at DATETIME(6) NOT NULL,
    KEY headrace_unit_applied (applied_at)
) ENGINE = InnoDB

-- migration_table
-- How far the tables of each owner have come. A part that was begun and is not done is gone through again.
CREATE TABLE IF NOT EXISTS headrace_table_migration (
    owner VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    number INTEGER NOT NULL,
    part INTEGER NOT NULL,
    name VARCHAR(190) NOT NULL,
    is_done BOOLEAN NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (owner, number, part)
) ENGINE = InnoDB

-- relation_exists
-- A table, view or index of this database by that name.
SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s)
    OR EXISTS (SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = %s)

-- unit_insert
-- A second one waits here for the end of the first, and then knows it.
INSERT INTO headrace_unit (unit_id, applied_at) VALUES (%s, UTC_TIMESTAMP(6))

-- units_forget
-- A unit is sent again for minutes, not for days.
DELETE FROM headrace_unit WHERE applied_at < UTC_TIMESTAMP(6) - INTERVAL %s SECOND LIMIT %s

-- migrations
-- Parts that were begun, by migration.
SELECT number, part, is_done FROM headrace_table_migration WHERE owner = %s

-- migration_begun
-- Before a part that the server commits by itself.
INSERT INTO headrace_table_migration (owner, number, part, name, is_done, changed_at)
VALUES (%s, %s, %s, %s, FALSE, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE is_done = FALSE

-- migration_done
-- After a part, and in one transaction with it where the server can do that.
INSERT INTO headrace_table_migration (owner, number, part, name, is_done, changed_at)
VALUES (%s, %s, %s, %s, TRUE, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE is_done = TRUE, changed_at = UTC_TIMESTAMP(6)

-- migration_lock
-- One at a time makes tables in a database.
SELECT GET_LOCK(CONCAT('headrace.', LEFT(SHA2(DATABASE(), 256), 40)), %s)

-- migration_unlock
-- The end of the connection does it too.
DO RELEASE_LOCK(CONCAT('headrace.', LEFT(SHA2(DATABASE(), 256), 40)))

-- migration_failed
-- The server has refused it, so it was not begun.
DELETE FROM headrace_table_migration WHERE owner = %s AND number = %s AND part = %s AND NOT is_done
