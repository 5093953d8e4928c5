-- name: alert_add
-- Posts that are a risk and no spam, each once per level.
INSERT INTO smap_alert (project_id, item, level, found_at)
SELECT DISTINCT told.project_id, told.item, told.level, :now::timestamptz
  FROM jsonb_to_recordset(:rows) AS told (project_id text, item text, level text)
  LEFT JOIN post_analytics AS post ON post.project_id = told.project_id AND post.minio_path = told.item
 WHERE NOT coalesce(post.is_spam, false)
ON CONFLICT (project_id, item, level) DO NOTHING;

-- name: alert_due
-- Projects with alerts that wait, and without a message since `since`.
SELECT DISTINCT waiting.project_id
  FROM smap_alert AS waiting
 WHERE waiting.batch IS NULL
   AND NOT EXISTS (SELECT 1 FROM smap_alert AS told
                    WHERE told.project_id = waiting.project_id AND told.gathered_at > :since)
 LIMIT :room;

-- name: alert_lock
-- Two that gather the alerts of a project take turns: the second finds that it is too early.
SELECT count(pg_advisory_xact_lock(hashtext('smap_alert'), hashtext(:project)));

-- name: alert_gather
-- All that waits, unless there was a message since `since`. The lock is held. A repeat after a lost answer adds nothing:
-- the message of the batch may be sent by then.
UPDATE smap_alert SET batch = :batch, gathered_at = :now
 WHERE project_id = :project AND batch IS NULL
   AND NOT EXISTS (SELECT 1 FROM smap_alert AS told
                    WHERE told.project_id = :project AND (told.gathered_at > :since OR told.batch = :batch));

-- name: alert_notices
-- The messages of a batch, if there is anything in it.
INSERT INTO smap_notice (project_id, channel, receiver, notice_id, alert, due_at, created_at)
SELECT :project, told.channel, told.receiver, told.notice_id, :batch, :now, :now
  FROM jsonb_to_recordset(:rows) AS told (channel text, receiver text, notice_id text)
 WHERE EXISTS (SELECT 1 FROM smap_alert WHERE project_id = :project AND batch = :batch)
ON CONFLICT (notice_id) DO NOTHING;

-- name: alert_levels
-- How many posts of a batch there are of each level, and how many of them were made up.
SELECT alert.level, count(*), count(*) FILTER (WHERE post.simulated)
  FROM smap_alert AS alert
  LEFT JOIN post_analytics AS post ON post.project_id = alert.project_id AND post.minio_path = alert.item
 WHERE alert.project_id = :project AND alert.batch = :batch
 GROUP BY alert.level;

-- name: alert_posts
-- The posts of a batch, the greatest risk first.
SELECT alert.level, alert.item, post.platform, coalesce(post.author_name, post.author_id), left(post.text, 1000),
       post.url, post.published_at, post.sentiment, post.sentiment_score, post.aspect_sentiments, post.impact,
       post.missing, post.simulated
  FROM smap_alert AS alert
  LEFT JOIN post_analytics AS post ON post.project_id = alert.project_id AND post.minio_path = alert.item
 WHERE alert.project_id = :project AND alert.batch = :batch
 ORDER BY alert.level, post.risk_score DESC NULLS LAST, alert.item
 LIMIT :room;

-- name: alert_forget
DELETE FROM smap_alert WHERE project_id = :project;
