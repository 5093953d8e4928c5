-- name: alert_due
-- Projects with alerts that wait, and without a message since `since`.
SELECT DISTINCT waiting.project_id
  FROM smap_alert AS waiting
 WHERE waiting.batch IS NULL
   AND NOT EXISTS (SELECT 1 FROM smap_alert AS told
                    WHERE told.project_id = waiting.project_id AND told.gathered_at > :since)
 LIMIT :room;

-- name: alert_gather
-- All that waits, unless there was a message since `since`. The lock is held. A repeat after a lost answer adds nothing:
-- the message of the batch may be sent by then.
UPDATE smap_alert SET batch = :batch, gathered_at = :now
 WHERE project_id = :project AND batch IS NULL
   AND NOT EXISTS (SELECT 1 FROM smap_alert AS told
                    WHERE told.project_id = :project AND (told.gathered_at > :since OR told.batch = :batch));

-- name: alert_levels
-- How many posts of a batch there are of each level, and how many of them were made up.
SELECT alert.level, count(*), count(*) FILTER (WHERE post.simulated)
  FROM smap_alert AS alert
  LEFT JOIN post_analytics AS post ON post.project_id = alert.project_id AND post.minio_path = alert.item
 WHERE alert.project_id = :project AND alert.batch = :batch
 GROUP BY alert.level;

-- name: alert_forget
DELETE FROM smap_alert WHERE project_id = :project;
