-- What people see of a job in a list: as in infra/schema.cql.
ALTER TABLE jobs_by_id ADD COLUMN payload_type text;

ALTER TABLE jobs_by_id ADD COLUMN last_error text;
