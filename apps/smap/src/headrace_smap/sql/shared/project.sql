-- name: order_stands
-- Whether the order under an id is this one.
SELECT 1 FROM smap_order WHERE project_id = :project AND digest = :digest

-- name: project_failed_tasks
-- Tasks of the crawl that failed, by the address that they read or else by their name.
SELECT coalesce(nullif(url, ''), task), error
  FROM smap_crawl
 WHERE project_id = :project AND state = 'failed'
 ORDER BY position
 LIMIT :room

-- name: retry_count
SELECT count(*) FROM smap_retry WHERE project_id = :project AND seed = :seed

-- name: retry_forget
DELETE FROM smap_retry WHERE asked_at < :before

-- name: recrawl_runs
-- The newest crawl that a schedule made, and how many there are.
SELECT project_id, count(*) OVER () FROM smap_order WHERE parent = :project
 ORDER BY created_at DESC, project_id LIMIT 1

-- name: deletion_mark
-- From now on nobody counts, finds or announces anything of it.
INSERT INTO smap_project AS account (project_id, created_at, moved_at, deleted_at)
SELECT project_id, asked_at, asked_at, asked_at FROM smap_deletion WHERE project_id = :project
ON CONFLICT (project_id) DO UPDATE SET deleted_at = coalesce(account.deleted_at, EXCLUDED.deleted_at)

-- name: deletion_hide
UPDATE projects SET status = 'DELETED'
 WHERE id = :project AND EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = :project)

-- name: deletion_held
SELECT project_id, sweeps FROM smap_deletion WHERE holder = :holder AND done_at IS NULL

-- name: deletion_paths
-- Posts of the project that are still there.
SELECT item FROM smap_found WHERE project_id = :project
 UNION
SELECT item FROM smap_item WHERE project_id = :project
 UNION
SELECT minio_path FROM post_analytics WHERE project_id = :project
 LIMIT :room

-- name: deletion_platforms
SELECT DISTINCT platform FROM smap_crawl WHERE project_id = :project

-- name: deletion_attempts
DELETE FROM smap_attempt WHERE project_id = :project

-- name: deletion_retries
DELETE FROM smap_retry WHERE project_id = :project

-- name: deletion_order
DELETE FROM smap_order WHERE project_id = :project

-- name: deletion_project
DELETE FROM projects WHERE id = :project
