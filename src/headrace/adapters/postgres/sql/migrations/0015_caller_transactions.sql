-- Submits inside a transaction that belongs to the caller, on the caller's own connection.

-- A store of another version is an answer and not an error: an error would end the caller's transaction. `told` sends
-- the wake-up with the caller's commit, which makes such commits of the whole database wait for each other.
CREATE FUNCTION headrace.submit_in(known integer, told boolean, given jsonb, payloads bytea[], ends bytea[],
                                   OUT version integer, OUT job_id text, OUT created boolean, OUT first_digest text)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT max(m.number) INTO version FROM headrace.migration m;
    IF version IS DISTINCT FROM known THEN
        RETURN;
    END IF;
    SELECT s.job_id, s.created, s.first_digest INTO job_id, created, first_digest
      FROM headrace.submit(given, payloads, ends) s;
    IF told AND created THEN
        PERFORM pg_notify('headrace', '');
    END IF;
END $$;
