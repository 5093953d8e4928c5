-- name: calendar_put
-- The column has the time of the change as Cassandra has it of the row.
INSERT INTO named_calendars (tenant, name, days_out, changed_at)
SELECT :tenant, :name, :days_out, :changed_at WHERE :written_us > 0
ON CONFLICT (tenant, name) DO UPDATE SET days_out = excluded.days_out, changed_at = excluded.changed_at
 WHERE changed_at <= excluded.changed_at;

-- name: calendars
SELECT tenant, name, days_out, changed_at AS "changed_at [time]" FROM named_calendars;

-- name: calendars_of
SELECT tenant, name, days_out, changed_at AS "changed_at [time]" FROM named_calendars WHERE tenant = :tenant;

-- name: calendar_delete
DELETE FROM named_calendars WHERE tenant = :tenant AND name = :name AND :written_us > 0;
