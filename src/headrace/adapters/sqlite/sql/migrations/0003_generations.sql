-- A job is judged by all its generations. `redriven`: how many dead letters a generation took up in a stage, each of
-- which is an item that an earlier one counts as dead.
ALTER TABLE headrace_stage ADD COLUMN redriven INTEGER NOT NULL DEFAULT 0;
UPDATE headrace_stage AS stage SET redriven = (
    SELECT count(*) FROM headrace_dead d
     WHERE d.job = stage.job AND d.position = stage.position AND d.redriven_in = stage.generation)
 WHERE generation > 1;

-- Jobs that were redriven before were judged by their newest generation alone.
UPDATE headrace_job AS job SET state = CASE
       WHEN EXISTS (
            SELECT 1 FROM headrace_graph g, (
                   SELECT position, sum(total) - sum(redriven) AS total, sum(dead) - sum(redriven) AS dead
                     FROM headrace_stage s WHERE s.job = job.id GROUP BY position) t
             WHERE g.digest = job.graph
               AND CASE WHEN json_extract(g.body, '$[' || t.position || '].tolerate.percent') IS NULL
                        THEN t.dead > json_extract(g.body, '$[' || t.position || '].tolerate.count')
                        ELSE t.dead * 100 > json_extract(g.body, '$[' || t.position || '].tolerate.percent') * t.total
                    END) THEN 'failed'
       WHEN state = 'failed' THEN 'finished'
       ELSE state END
 WHERE generation > 1 AND state <> 'open';
UPDATE headrace_finish AS finish SET state = job.state FROM headrace_job job
 WHERE job.id = finish.job AND job.generation = finish.generation AND job.state <> 'open' AND job.state <> finish.state;
