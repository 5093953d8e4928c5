-- ledger_open
-- An account with nothing expected; one that is there stays as it is.
INSERT INTO headrace_ledger_account (name, topic, headers, opened_at) VALUES (:account, :topic, :headers, :now)
    ON CONFLICT (name) DO NOTHING
RETURNING 1

-- ledger_row
-- The counts of an account and what it will announce.
SELECT total, done, errors, sealed, finished_at IS NOT NULL, topic, headers
  FROM headrace_ledger_account WHERE name = :account

-- ledger_source
-- One source expects once.
INSERT INTO headrace_ledger_source (account, source, count) VALUES (:account, :source, :count)
    ON CONFLICT DO NOTHING
RETURNING 1

-- ledger_source_count
-- What a source expected.
SELECT count FROM headrace_ledger_source WHERE account = :account AND source = :source

-- ledger_expect
-- More belongs to the account.
UPDATE headrace_ledger_account SET total = total + :count WHERE name = :account

-- ledger_seal
-- From here on the total is fixed.
UPDATE headrace_ledger_account SET sealed = 1, total = :total WHERE name = :account

-- ledger_known
-- Which of these items have ended before.
SELECT item FROM headrace_ledger_item WHERE account = :account AND item IN (SELECT value FROM json_each(:items))

-- ledger_items
-- Items of an account, each once.
INSERT INTO headrace_ledger_item (account, item, ok)
SELECT :account, value ->> 0, value ->> 1 FROM json_each(:entries)
 WHERE true
    ON CONFLICT DO NOTHING

-- ledger_count
-- Only new items count.
UPDATE headrace_ledger_account SET done = done + :done, errors = errors + :errors WHERE name = :account

-- ledger_finish
-- The finish line: sealed, everything ended, and nobody was here before.
UPDATE headrace_ledger_account SET finished_at = :now
 WHERE name = :account AND sealed = 1 AND finished_at IS NULL AND done + errors = total
RETURNING 1

-- ledger_old
-- Accounts that finished long ago and whose announcement is told and gone.
SELECT name FROM headrace_ledger_account
 WHERE finished_at < :before AND finished_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM headrace_event WHERE event_id = name || '.finished')
 ORDER BY finished_at LIMIT 10

-- ledger_forget_items
-- A bounded number of an account's items.
DELETE FROM headrace_ledger_item WHERE account = :account AND item IN (
    SELECT item FROM headrace_ledger_item WHERE account = :account LIMIT 5000)

-- ledger_forget_sources
-- A bounded number of an account's sources.
DELETE FROM headrace_ledger_source WHERE account = :account AND source IN (
    SELECT source FROM headrace_ledger_source WHERE account = :account LIMIT 5000)

-- ledger_forget
-- The account itself, when nothing refers to it.
DELETE FROM headrace_ledger_account WHERE name = :account
   AND NOT EXISTS (SELECT 1 FROM headrace_ledger_item WHERE account = :account)
   AND NOT EXISTS (SELECT 1 FROM headrace_ledger_source WHERE account = :account)
