-- name: alert_add
-- Posts that are a risk and no spam, each once per level.
INSERT INTO smap_alert (project_id, item, level, found_at)
SELECT DISTINCT told.value ->> 'project_id', told.value ->> 'item', told.value ->> 'level', :now
  FROM json_each(:rows) AS told
  LEFT JOIN post_analytics AS post
    ON post.project_id = told.value ->> 'project_id' AND post.minio_path = told.value ->> 'item'
 WHERE NOT coalesce(post.is_spam, false)
ON CONFLICT (project_id, item, level) DO NOTHING;

-- name: alert_lock
-- A file has one writer at a time.
SELECT :project;

-- name: alert_notices
-- The messages of a batch, if there is anything in it.
INSERT INTO smap_notice (project_id, channel, receiver, notice_id, alert, due_at, created_at)
SELECT :project, told.value ->> 'channel', told.value ->> 'receiver', told.value ->> 'notice_id', :batch, :now, :now
  FROM json_each(:rows) AS told
 WHERE EXISTS (SELECT 1 FROM smap_alert WHERE project_id = :project AND batch = :batch)
ON CONFLICT (notice_id) DO NOTHING;

-- name: alert_posts
-- The posts of a batch, the greatest risk first.
SELECT alert.level, alert.item, post.platform, coalesce(post.author_name, post.author_id), substr(post.text, 1, 1000),
       post.url, post.published_at AS "published_at [time]", post.sentiment, post.sentiment_score,
       post.aspect_sentiments AS "aspects [json]", post.impact, post.missing AS "missing [json]",
       post.simulated AS "simulated [bool]"
  FROM smap_alert AS alert
  LEFT JOIN post_analytics AS post ON post.project_id = alert.project_id AND post.minio_path = alert.item
 WHERE alert.project_id = :project AND alert.batch = :batch
 ORDER BY alert.level, post.risk_score DESC NULLS LAST, alert.item
 LIMIT :room;
