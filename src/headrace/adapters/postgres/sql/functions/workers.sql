-- A worker says that it is alive; seldom enough that claiming does not write a row each time.
CREATE FUNCTION headrace.seen(worker_id text, worker_host text, worker_pid integer, hold_s double precision,
    every_s double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM headrace.worker w WHERE w.id = worker_id AND w.hold_s = seen.hold_s
                      AND w.seen_at > moment - headrace.seconds(every_s)) THEN
        INSERT INTO headrace.worker AS w (id, host, pid, hold_s, seen_at)
        VALUES (worker_id, worker_host, worker_pid, seen.hold_s, moment)
        ON CONFLICT (id) DO UPDATE SET hold_s = excluded.hold_s, seen_at = excluded.seen_at;
    END IF;
END $$;

-- Whether a worker that runs now has a flow.
CREATE FUNCTION headrace.attended(wanted text) RETURNS boolean LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM headrace.schedule_worker sw JOIN headrace.worker w ON w.id = sw.worker
                    WHERE sw.flow = wanted AND w.seen_at >= clock_timestamp() - headrace.seconds(w.hold_s));
END;
