-- name: truth_trace
-- The trace that a project belongs to: the first stays.
UPDATE smap_project SET traceparent = :traceparent WHERE project_id = :project AND traceparent = ''

-- name: truth_crawl
UPDATE smap_project SET crawled_at = :now WHERE project_id = :project AND crawled_at IS NULL

-- name: truth_recount_projects
UPDATE projects SET errors = account.errors
  FROM smap_project AS account
 WHERE projects.id = :project AND account.project_id = projects.id AND account.finished_at <= :before
   AND account.deleted_at IS NULL

-- name: truth_watch
-- Whom the reconciler looks after: everything unfinished or unannounced, and what finished or was deleted lately.
SELECT project_id FROM smap_project WHERE announced_at IS NULL AND deleted_at IS NULL AND status IS NOT NULL
 UNION
SELECT project_id FROM smap_project WHERE finished_at > :since AND deleted_at IS NULL
 UNION
SELECT project_id FROM smap_project WHERE deleted_at > :since

-- name: truth_orphans
-- Posts ended, and nobody ever opened their project.
SELECT project_id FROM smap_project
 WHERE announced_at IS NULL AND status IS NULL AND deleted_at IS NULL AND settled > 0 AND created_at < :before
   AND NOT EXISTS (SELECT 1 FROM projects WHERE id = project_id)
 ORDER BY project_id LIMIT :room

-- name: truth_failed
-- What can be tried again: the messages of failed items.
SELECT item, reason, body FROM smap_item
 WHERE project_id = :project AND state = 'failed' AND item > :after ORDER BY item LIMIT :room

-- name: truth_cancel_project
UPDATE projects SET status = 'CANCELLED'
 WHERE id IN (SELECT project_id FROM smap_project WHERE project_id = :project AND cancelled_at IS NOT NULL)

-- name: truth_finish_project
UPDATE projects
   SET status = CASE WHEN cancelled_at IS NULL THEN 'DONE' ELSE 'CANCELLED' END, total = final_total,
       done = final_done, errors = final_errors, finished_at = account.finished_at
  FROM smap_project AS account
 WHERE id = :project AND project_id = :project AND account.finished_at IS NOT NULL AND projects.finished_at IS NULL

-- name: truth_announced
UPDATE smap_project SET announced_at = :now WHERE project_id = :project AND announced_at IS NULL

-- name: truth_forget_items
DELETE FROM smap_item WHERE project_id = :project

-- name: truth_forget_project
DELETE FROM projects WHERE id = :project

-- name: progress_forget
DELETE FROM smap_shown WHERE project_id = :project
