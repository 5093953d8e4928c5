-- name: order_insert
-- The first order under an id stands; an id that anybody uses or used is not taken.
INSERT INTO smap_order (project_id, digest, name, posts_max, parent, created_at)
SELECT :project, :digest, :name, :posts_max, :parent, :now
 WHERE NOT EXISTS (SELECT 1 FROM projects WHERE id = :project)
   AND NOT EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = :project)
   AND NOT EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = :parent)
ON CONFLICT (project_id) DO NOTHING

-- name: order_account
INSERT INTO smap_project (project_id, status, rank, created_at, moved_at)
SELECT project_id, :status, 0, created_at, created_at FROM smap_order WHERE project_id = :project AND digest = :digest
ON CONFLICT (project_id) DO NOTHING

-- name: order_project
INSERT INTO projects (id, keywords, targets, date_range, status, created_at)
SELECT project_id, :keywords, :targets, :date_range, :status, created_at FROM smap_order
 WHERE project_id = :project AND digest = :digest
ON CONFLICT (id) DO NOTHING

-- name: project_list
-- Newest first, after a place in that order.
SELECT project.id, project.keywords AS "keywords [json]", project.targets AS "targets [json]",
       project.date_range AS "date_range [json]",
       CASE WHEN account.cancelled_at IS NOT NULL THEN 'CANCELLED' ELSE coalesce(account.status, project.status) END,
       project.created_at AS "created_at [time]",
       coalesce(account.finished_at, project.finished_at) AS "finished_at [time]", ordered.name, ordered.posts_max,
       ordered.parent,
       (SELECT count(*) FROM smap_crawl AS task WHERE task.project_id = project.id AND task.state = 'failed'),
       EXISTS (SELECT 1 FROM post_analytics AS post WHERE post.project_id = project.id AND post.simulated) AS "simulated [bool]"
  FROM projects AS project
  LEFT JOIN smap_project AS account ON account.project_id = project.id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = project.id
 WHERE account.deleted_at IS NULL
   AND (:before IS NULL OR (project.created_at, project.id) < (:before, :before_id))
   AND (:status IS NULL OR :status = CASE WHEN account.cancelled_at IS NOT NULL THEN 'CANCELLED'
                                                ELSE coalesce(account.status, project.status) END)
 ORDER BY project.created_at DESC, project.id DESC
 LIMIT :room

-- name: project_get
SELECT project.id, project.keywords AS "keywords [json]", project.targets AS "targets [json]",
       project.date_range AS "date_range [json]",
       CASE WHEN account.cancelled_at IS NOT NULL THEN 'CANCELLED' ELSE coalesce(account.status, project.status) END,
       project.created_at AS "created_at [time]",
       coalesce(account.finished_at, project.finished_at) AS "finished_at [time]", ordered.name, ordered.posts_max,
       ordered.parent,
       (SELECT count(*) FROM smap_crawl AS task WHERE task.project_id = project.id AND task.state = 'failed'),
       EXISTS (SELECT 1 FROM post_analytics AS post WHERE post.project_id = project.id AND post.simulated) AS "simulated [bool]"
  FROM projects AS project
  LEFT JOIN smap_project AS account ON account.project_id = project.id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = project.id
 WHERE project.id = :project AND account.deleted_at IS NULL

-- name: project_failures
-- Posts that ended as errors, by name.
SELECT item, reason, settled_at AS "settled_at [time]", body
  FROM smap_item
 WHERE project_id = :project AND state = 'failed' AND item > :after
 ORDER BY item
 LIMIT :room

-- name: project_results
-- Results by path, a page at a time.
SELECT minio_path, post_id, platform, keyword, language, author_id, author_name, followers, likes, comments, shares,
       views, published_at AS "published_at [time]", day AS "day [date]", url, text, hashtags AS "hashtags [json]",
       intent, intent_score, is_spam AS "is_spam [bool]", spam_score, spam_reasons AS "spam_reasons [json]",
       keywords AS "keywords [json]", phrases AS "phrases [json]", aspects AS "aspects [json]", sentiment,
       sentiment_score, aspect_sentiments AS "aspect_sentiments [json]", reach, engagement, engagement_rate, impact,
       risk, crawled_at, analyzed_at AS "analyzed_at [time]", model_version, risk_score, missing AS "missing [json]",
       simulated AS "simulated [bool]", uncertain AS "uncertain [json]", timezone
  FROM post_analytics
 WHERE project_id = :project AND minio_path > :after
 ORDER BY minio_path
 LIMIT :room

-- name: retry_add
-- Posts that a request has tried again.
INSERT INTO smap_retry (project_id, seed, item, asked_at)
SELECT :project, :seed, value, :now FROM json_each(:items)
 WHERE true
ON CONFLICT (project_id, seed, item) DO NOTHING

-- name: recrawl_source
-- The newest crawl of a project and whether it has ended, at first of the project itself; with what the next one needs
-- to know.
SELECT last.id, last.id IS NULL OR account.finished_at IS NOT NULL OR account.cancelled_at IS NOT NULL
       OR account.deleted_at IS NOT NULL,
       first.keywords AS "keywords [json]", first.targets AS "targets [json]", ordered.name, ordered.posts_max,
       last.date_range AS "date_range [json]", last.created_at AS "created_at [time]"
  FROM projects AS first
  LEFT JOIN smap_order AS ordered ON ordered.project_id = first.id
  LEFT JOIN projects AS last ON last.id = coalesce((SELECT crawl.project_id FROM smap_order AS crawl
                                                     WHERE crawl.parent = :project
                                                     ORDER BY crawl.created_at DESC, crawl.project_id LIMIT 1), first.id)
  LEFT JOIN smap_project AS account ON account.project_id = last.id
 WHERE first.id = :project AND NOT EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = :project)

-- name: deletion_ask
INSERT INTO smap_deletion (project_id, asked_at, due_at)
SELECT :project, :now, :now
 WHERE EXISTS (SELECT 1 FROM projects WHERE id = :project)
    OR EXISTS (SELECT 1 FROM smap_project WHERE project_id = :project)
ON CONFLICT (project_id) DO NOTHING

-- name: deletion_read
SELECT asked_at AS "asked_at [time]", sweeps, done_at AS "done_at [time]" FROM smap_deletion WHERE project_id = :project

-- name: deletion_hold
UPDATE smap_deletion SET holder = :holder, due_at = :until
 WHERE project_id IN (SELECT project_id FROM smap_deletion
                       WHERE done_at IS NULL AND due_at <= :now
                       ORDER BY due_at LIMIT 1)

-- name: deletion_renew
UPDATE smap_deletion SET due_at = :until
 WHERE project_id = :project AND holder = :holder

-- name: deletion_swept
UPDATE smap_deletion
   SET sweeps = :sweeps, holder = NULL, due_at = :until,
       done_at = CASE WHEN :done THEN :now END
 WHERE project_id = :project AND holder = :holder

-- name: deletion_shared
-- Which of these blobs belong to other projects too.
SELECT item FROM smap_found WHERE item IN (SELECT value FROM json_each(:paths)) AND project_id <> :project
 UNION
SELECT item FROM smap_item WHERE item IN (SELECT value FROM json_each(:paths)) AND project_id <> :project
 UNION
SELECT minio_path FROM post_analytics
 WHERE minio_path IN (SELECT value FROM json_each(:paths)) AND project_id <> :project

-- name: deletion_found
DELETE FROM smap_found WHERE project_id = :project AND item IN (SELECT value FROM json_each(:paths))

-- name: deletion_items
DELETE FROM smap_item WHERE project_id = :project AND item IN (SELECT value FROM json_each(:paths))

-- name: deletion_results
DELETE FROM post_analytics WHERE project_id = :project AND minio_path IN (SELECT value FROM json_each(:paths))

-- name: deletion_seen
DELETE FROM smap_insight_seen WHERE project_id = :project AND item IN (SELECT value FROM json_each(:paths))
