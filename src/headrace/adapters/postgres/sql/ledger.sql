-- ledger_open
-- An account with nothing expected; one that is there stays as it is.
INSERT INTO headrace.ledger_account (name, topic, headers) VALUES (%b, %b, %b) ON CONFLICT (name) DO NOTHING RETURNING 1

-- ledger_expect
-- More belongs to the account.
SELECT r.reason, r.before, (r.account).total, (r.account).done, (r.account).errors, (r.account).sealed,
       (r.account).finished_at IS NOT NULL
  FROM headrace.ledger_expect(%b, %b::bigint, %b) r

-- ledger_seal
-- The total is fixed.
SELECT r.reason, r.crossed, (r.account).total, (r.account).done, (r.account).errors, (r.account).sealed,
       (r.account).finished_at IS NOT NULL
  FROM headrace.ledger_seal(%b, %b::bigint) r

-- ledger_settle
-- Items ended.
SELECT r.reason, r.fresh, r.surplus, r.crossed, (r.account).total, (r.account).done, (r.account).errors,
       (r.account).sealed, (r.account).finished_at IS NOT NULL
  FROM headrace.ledger_settle(%b, %b::text[], %b::boolean[]) r

-- ledger_tally
-- The counts of an account.
SELECT total, done, errors, sealed, finished_at IS NOT NULL FROM headrace.ledger_account WHERE name = %b
