-- Queues of tenants and priorities, and when they have jobs that are due, as in infra/schema.cql.
CREATE TABLE tenant_queues (
    number integer PRIMARY KEY NOT NULL,
    tenant text NOT NULL,
    priority text NOT NULL
);

CREATE TABLE queue_marks (
    day text NOT NULL,
    due_at text NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (day, due_at, number)
) WITHOUT ROWID;

ALTER TABLE cron_schedules ADD COLUMN tenant text;
ALTER TABLE cron_schedules ADD COLUMN priority text;
ALTER TABLE cron_schedules ADD COLUMN calendars text;
ALTER TABLE audit_events ADD COLUMN tenant text;

CREATE TABLE named_calendars (
    tenant text NOT NULL,
    name text NOT NULL,
    days_out text NOT NULL,
    changed_at text NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
