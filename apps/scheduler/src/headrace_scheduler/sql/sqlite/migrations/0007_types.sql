-- Cassandra refuses an id that is no UUID, a time that is none and a number that is text. SQLite keeps any of them, and one
-- such row would end every poll, or be seen and never found again. So whoever writes it is told.
CREATE TRIGGER jobs_pending_types BEFORE INSERT ON jobs_pending_by_bucket
WHEN typeof(NEW.bucket_id) <> 'integer' OR typeof(NEW.job_id) <> 'text' OR typeof(NEW.payload) NOT IN ('text', 'null')
  OR typeof(NEW.payload_us) <> 'integer'
  OR NEW.job_id NOT GLOB '????????-????-????-????-????????????'
  OR NEW.job_id GLOB '*[^0-9a-f-]*' OR length(replace(NEW.job_id, '-', '')) <> 32
  OR NEW.scheduled_time NOT GLOB '????-??-??T??:??:??.???[0-9][0-9][0-9]+00:00'
  OR strftime('%Y-%m-%dT%H:%M:%f', substr(NEW.scheduled_time, 1, 23)) IS NOT substr(NEW.scheduled_time, 1, 23)
BEGIN
    SELECT RAISE(ABORT, 'job_id is a UUID in lower case, scheduled_time as in 2026-01-31T09:00:00.000000+00:00, others as in schema.cql');
END;

CREATE TRIGGER jobs_sharded_types BEFORE INSERT ON jobs_sharded
WHEN typeof(NEW.bucket_id) <> 'integer' OR typeof(NEW.job_id) <> 'text' OR typeof(NEW.payload) NOT IN ('text', 'null')
  OR typeof(NEW.status_us) <> 'integer' OR typeof(NEW.attempts) NOT IN ('integer', 'null')
  OR typeof(NEW.status) NOT IN ('text', 'null')
  OR NEW.job_id NOT GLOB '????????-????-????-????-????????????'
  OR NEW.job_id GLOB '*[^0-9a-f-]*' OR length(replace(NEW.job_id, '-', '')) <> 32
  OR NEW.scheduled_time NOT GLOB '????-??-??T??:??:??.???[0-9][0-9][0-9]+00:00'
  OR strftime('%Y-%m-%dT%H:%M:%f', substr(NEW.scheduled_time, 1, 23)) IS NOT substr(NEW.scheduled_time, 1, 23)
BEGIN
    SELECT RAISE(ABORT, 'job_id is a UUID in lower case, scheduled_time as in 2026-01-31T09:00:00.000000+00:00, others as in schema.cql');
END;
