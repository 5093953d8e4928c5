-- name: aggregate_forget
DELETE FROM smap_aggregate WHERE project_id = :project;

-- name: aggregate_forget_seen
DELETE FROM smap_insight_seen WHERE project_id = :project;

-- name: aggregate_see_all
INSERT INTO smap_insight_seen (project_id, item)
SELECT project_id, minio_path FROM post_analytics WHERE project_id = :project
ON CONFLICT DO NOTHING;

-- name: aggregate_rows
-- An engagement of 0 says nothing: the rows of those posts may be somebody else's. Nor is it known which are spam.
SELECT day, platform, keyword, sentiment, posts, risky, nullif(engagement, 0), impact, NULL
  FROM smap_aggregate
 WHERE project_id = :project
 ORDER BY day, platform, keyword, sentiment;

-- name: notice_counts
-- What the finish row says, whether there is one, whether nobody is to be told, what people call the project, and how
-- many tasks of its crawl failed.
SELECT final_total, final_done, final_errors, finished_at IS NOT NULL,
       cancelled_at IS NOT NULL OR deleted_at IS NOT NULL, ordered.name,
       (SELECT count(*) FROM smap_crawl AS task WHERE task.project_id = kept.project_id AND task.state = 'failed')
  FROM smap_project AS kept
  LEFT JOIN smap_order AS ordered ON ordered.project_id = kept.project_id
 WHERE kept.project_id = :project;

-- name: notice_summary
SELECT sentiment, risk, is_spam, simulated, count(*)
  FROM post_analytics
 WHERE project_id = :project
 GROUP BY 1, 2, 3, 4;

-- name: notice_sent
UPDATE smap_notice SET state = 'sent', sent_at = :now, error = NULL WHERE notice_id = :notice;

-- name: notice_failed
UPDATE smap_notice SET state = :state, due_at = :due, error = :error WHERE notice_id = :notice AND state = 'waiting';

-- name: notice_forget
DELETE FROM smap_notice WHERE project_id = :project;

-- name: receivers_inherit
-- A crawl that a schedule makes tells those of its parent.
INSERT INTO smap_receivers (project_id, receivers)
SELECT :project, receivers FROM smap_receivers
 WHERE project_id = :parent AND EXISTS (SELECT 1 FROM projects WHERE id = :project)
ON CONFLICT (project_id) DO NOTHING;

-- name: receivers_forget
DELETE FROM smap_receivers WHERE project_id = :project;

-- name: secret_get
SELECT value FROM smap_secret WHERE name = :secret;

-- name: report_simulated
-- All posts, and those that are made up.
SELECT count(*), count(*) FILTER (WHERE simulated) FROM post_analytics WHERE project_id = :project;

-- name: report_timezones
-- By which zones the posts are dated.
SELECT DISTINCT timezone FROM post_analytics WHERE project_id = :project ORDER BY 1;
