-- A job is judged by all its generations. `redriven`: how many dead letters a generation took up in a stage, each of
-- which is an item that an earlier one counts as dead.
ALTER TABLE headrace.stage ADD COLUMN redriven bigint NOT NULL DEFAULT 0;
UPDATE headrace.stage s SET redriven = (
    SELECT count(*) FROM headrace.dead d WHERE d.job = s.job AND d.position = s.position AND d.redriven_in = s.generation)
 WHERE s.generation > 1;

-- Jobs that were redriven before were judged by their newest generation alone.
UPDATE headrace.job j SET state = CASE WHEN EXISTS (
           SELECT FROM headrace.stage s WHERE s.job = j.id GROUP BY s.name
           HAVING CASE WHEN min(s.tolerate_percent) IS NULL
                       THEN sum(s.dead) - sum(s.redriven) > min(s.tolerate_count)
                       ELSE (sum(s.dead) - sum(s.redriven)) * 100
                            > min(s.tolerate_percent) * (sum(s.total) - sum(s.redriven)) END) THEN 'failed'
       WHEN j.state = 'failed' THEN 'finished' ELSE j.state END
 WHERE j.generation > 1 AND j.state <> 'open';
UPDATE headrace.finish f SET state = j.state FROM headrace.job j
 WHERE j.id = f.job AND j.generation = f.generation AND j.state <> 'open' AND j.state <> f.state;
