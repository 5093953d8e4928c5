-- name: completed_add
-- The first event of a name counts, all others are its duplicates. Rows are locked in the order of their keys.
INSERT INTO matching_completed AS kept (job_id, name, event_id, first_seen, unit, duplicates)
SELECT job, name, (array_agg(event_id ORDER BY number))[1], :now, :unit, count(*) - 1
  FROM jsonb_to_recordset(:told) AS told(job text, name text, event_id text, number integer)
 GROUP BY job, name ORDER BY job, name
    ON CONFLICT (job_id, name) DO UPDATE SET duplicates = kept.duplicates + EXCLUDED.duplicates + 1

-- name: duplicates_add
-- Which events were dropped: all but the one that this unit wrote as the first. No more than :most are named per name.
INSERT INTO matching_duplicate AS kept (job_id, name, event_id, first_seen, times)
SELECT told.job, told.name, told.event_id, :now, told.times - own.one
  FROM (SELECT job, name, event_id, count(*) AS times
          FROM jsonb_to_recordset(:told) AS told(job text, name text, event_id text) GROUP BY job, name, event_id) told
  JOIN matching_completed first ON first.job_id = told.job AND first.name = told.name,
       LATERAL (SELECT CASE WHEN first.unit = :unit AND first.event_id = told.event_id THEN 1 ELSE 0 END AS one) own
 WHERE told.times > own.one
   AND (SELECT count(*) FROM matching_duplicate d WHERE d.job_id = told.job AND d.name = told.name) < :most
 ORDER BY told.job, told.name, told.event_id
    ON CONFLICT (job_id, name, event_id) DO UPDATE SET times = kept.times + EXCLUDED.times

-- name: ready_add
-- The tally follows from what this very statement wrote. Rows are locked in the order of their keys.
WITH fresh AS (
  INSERT INTO matching_ready (job_id, name, asset_id)
  SELECT job, name, asset FROM unnest(:jobs::text[], :names::text[], :assets::text[]) AS told(job, name, asset)
   ORDER BY job COLLATE "C", name COLLATE "C", asset COLLATE "C"
      ON CONFLICT DO NOTHING
  RETURNING job_id, name
)
INSERT INTO matching_tally AS kept (job_id, name, count)
SELECT job_id, name, count(*) FROM fresh GROUP BY job_id, name ORDER BY job_id, name
    ON CONFLICT (job_id, name) DO UPDATE SET count = kept.count + EXCLUDED.count

-- name: completed_of
SELECT name, event_id, first_seen, duplicates FROM matching_completed WHERE job_id = :job ORDER BY name

-- name: duplicates_of
SELECT name, event_id, first_seen, times FROM matching_duplicate WHERE job_id = :job
 ORDER BY first_seen DESC, name, event_id LIMIT :limit

-- name: tallies_of
SELECT name, count FROM matching_tally WHERE job_id = :job

-- name: unknown_add
-- Since when each of these waits: also of what waited before.
INSERT INTO matching_unknown AS kept (digest, first_seen)
SELECT digest, :now FROM unnest(:digests::text[]) AS told(digest) GROUP BY digest ORDER BY digest COLLATE "C"
    ON CONFLICT (digest) DO UPDATE SET first_seen = least(kept.first_seen, EXCLUDED.first_seen)
RETURNING digest, first_seen

-- name: unknown_forget
DELETE FROM matching_unknown WHERE digest = ANY (:digests::text[])

-- name: unknown_sweep
-- What was refused, or came again to nobody.
DELETE FROM matching_unknown WHERE digest IN (SELECT digest FROM matching_unknown WHERE first_seen < :before LIMIT 1000)
