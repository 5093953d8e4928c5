-- examine_settings
-- The settings that the account depends on, as this very session has them.
SELECT name, setting FROM pg_catalog.pg_settings
 WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'max_connections',
                'superuser_reserved_connections', 'reserved_connections', 'default_transaction_read_only')

-- examine_server
-- Whether it is a standby, its clock, and how many clients are connected.
SELECT pg_catalog.pg_is_in_recovery(), extract(epoch FROM clock_timestamp())::double precision,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')

-- examine_idle
-- Transactions of this database that have been open and idle for longer than so many seconds, the oldest first.
SELECT pid, coalesce(application_name, ''),
       extract(epoch FROM clock_timestamp() - xact_start)::double precision AS age_s
  FROM pg_catalog.pg_stat_activity
 WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
   AND xact_start < clock_timestamp() - make_interval(secs => %s)
 ORDER BY xact_start

-- examine_expired
-- Claims that ran out and were not swept: how many, and since when.
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(until)), 0)::double precision
  FROM headrace.claim WHERE live AND until < clock_timestamp()
