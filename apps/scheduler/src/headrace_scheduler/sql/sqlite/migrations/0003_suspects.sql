-- Runs that were lost: as in infra/schema.cql.
ALTER TABLE jobs_by_id ADD COLUMN suspect integer;

ALTER TABLE jobs_by_id ADD COLUMN alone_token integer;

ALTER TABLE jobs_by_id ADD COLUMN crash_tokens text;
