-- name: completed_add
-- The first event of a name counts, all others are its duplicates.
INSERT INTO matching_completed (job_id, name, event_id, first_seen, unit, duplicates)
SELECT job, name, event_id, :now, :unit, times - 1
  FROM (SELECT value ->> 'job' AS job, value ->> 'name' AS name, value ->> 'event_id' AS event_id,
               count(*) AS times, min(value ->> 'number')
          FROM json_each(:told) GROUP BY 1, 2)
 WHERE true
    ON CONFLICT (job_id, name) DO UPDATE SET duplicates = duplicates + excluded.duplicates + 1

-- name: duplicates_add
-- Which events were dropped: all but the one that this unit wrote as the first. No more than :most are named per name.
INSERT INTO matching_duplicate (job_id, name, event_id, first_seen, times)
SELECT told.job, told.name, told.event_id, :now,
       told.times - (kept.unit = :unit AND kept.event_id = told.event_id)
  FROM (SELECT value ->> 'job' AS job, value ->> 'name' AS name, value ->> 'event_id' AS event_id, count(*) AS times
          FROM json_each(:told) GROUP BY 1, 2, 3) AS told
  JOIN matching_completed AS kept ON kept.job_id = told.job AND kept.name = told.name
 WHERE told.times > (kept.unit = :unit AND kept.event_id = told.event_id)
   AND (SELECT count(*) FROM matching_duplicate d WHERE d.job_id = told.job AND d.name = told.name) < :most
    ON CONFLICT (job_id, name, event_id) DO UPDATE SET times = times + excluded.times

-- name: ready_add
-- The tally follows from what is about to be written, and nobody else writes in between.
INSERT INTO matching_tally (job_id, name, count)
SELECT told.job, told.name, count(*)
  FROM (SELECT jobs.value AS job, names.value AS name, assets.value AS asset
          FROM json_each(:jobs) AS jobs
          JOIN json_each(:names) AS names ON names.key = jobs.key
          JOIN json_each(:assets) AS assets ON assets.key = jobs.key
         GROUP BY 1, 2, 3) AS told
  LEFT JOIN matching_ready AS kept ON kept.job_id = told.job AND kept.name = told.name AND kept.asset_id = told.asset
 WHERE kept.asset_id IS NULL
 GROUP BY told.job, told.name
    ON CONFLICT (job_id, name) DO UPDATE SET count = count + excluded.count;
INSERT OR IGNORE INTO matching_ready (job_id, name, asset_id)
SELECT jobs.value, names.value, assets.value
  FROM json_each(:jobs) AS jobs
  JOIN json_each(:names) AS names ON names.key = jobs.key
  JOIN json_each(:assets) AS assets ON assets.key = jobs.key

-- name: completed_of
SELECT name, event_id, first_seen AS "first_seen [time]", duplicates FROM matching_completed WHERE job_id = :job
 ORDER BY name

-- name: duplicates_of
SELECT name, event_id, first_seen AS "first_seen [time]", times FROM matching_duplicate WHERE job_id = :job
 ORDER BY first_seen DESC, name, event_id LIMIT :limit

-- name: tallies_of
SELECT name, count FROM matching_tally WHERE job_id = :job

-- name: unknown_add
-- Since when each of these waits: also of what waited before.
INSERT INTO matching_unknown (digest, first_seen)
SELECT value, :now FROM json_each(:digests) WHERE true GROUP BY 1
    ON CONFLICT (digest) DO UPDATE SET first_seen = min(first_seen, excluded.first_seen)
RETURNING digest, first_seen AS "first_seen [time]"

-- name: unknown_forget
DELETE FROM matching_unknown WHERE digest IN (SELECT value FROM json_each(:digests))

-- name: unknown_sweep
-- What was refused, or came again to nobody.
DELETE FROM matching_unknown WHERE digest IN (SELECT digest FROM matching_unknown WHERE first_seen < :before LIMIT 1000)
