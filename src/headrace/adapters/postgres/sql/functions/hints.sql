-- Work became available in this transaction: the adapter notifies after the commit, never inside it.
CREATE FUNCTION headrace.ring() RETURNS text LANGUAGE sql
RETURN set_config('headrace.rang', 'yes', true);

-- Start a transaction's notes.
CREATE FUNCTION headrace.hush() RETURNS text LANGUAGE sql
RETURN set_config('headrace.rang', '', true);

-- Whether the adapter has something to tell after the commit.
CREATE FUNCTION headrace.rang() RETURNS boolean LANGUAGE sql
RETURN current_setting('headrace.rang', true) = 'yes';
