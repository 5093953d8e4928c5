-- name: alert_add
-- Posts that are a risk and no spam, each once per level.
INSERT INTO smap_alert (project_id, item, level, found_at)
SELECT DISTINCT told.project_id, told.item, told.level, :now::timestamptz
  FROM jsonb_to_recordset(:rows) AS told (project_id text, item text, level text)
  LEFT JOIN post_analytics AS post ON post.project_id = told.project_id AND post.minio_path = told.item
 WHERE NOT coalesce(post.is_spam, false)
ON CONFLICT (project_id, item, level) DO NOTHING;

-- name: alert_lock
-- Two that gather the alerts of a project take turns: the second finds that it is too early.
SELECT count(pg_advisory_xact_lock(hashtext('smap_alert'), hashtext(:project)));

-- name: alert_notices
-- The messages of a batch, if there is anything in it.
INSERT INTO smap_notice (project_id, channel, receiver, notice_id, alert, due_at, created_at)
SELECT :project, told.channel, told.receiver, told.notice_id, :batch, :now, :now
  FROM jsonb_to_recordset(:rows) AS told (channel text, receiver text, notice_id text)
 WHERE EXISTS (SELECT 1 FROM smap_alert WHERE project_id = :project AND batch = :batch)
ON CONFLICT (notice_id) DO NOTHING;

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
