-- name: crawl_planned
SELECT document FROM smap_crawl WHERE project_id = :project AND document <> '' ORDER BY position;

-- name: crawl_begin
-- A newer claim takes the task. One that is taken while somebody crawls was lost by its holder.
UPDATE smap_crawl
   SET fence = :fence, state = 'crawling', updated_at = :now,
       lost = lost + CASE WHEN state = 'crawling' AND fence < :fence THEN 1 ELSE 0 END
 WHERE project_id = :project AND task = :task AND fence <= :fence AND state IN ('waiting', 'crawling');

-- name: crawl_advance
-- The page is stored: the next holder goes on after it.
UPDATE smap_crawl
   SET cursor = :cursor, ended = :ended, pages = :pages, failures = 0, error = NULL, updated_at = :now
 WHERE project_id = :project AND task = :task AND fence = :fence AND state = 'crawling';

-- name: crawl_rest
-- The holder lets go of the task, for the next turn or after a failure.
UPDATE smap_crawl SET state = 'waiting', failures = :failures, error = :error, updated_at = :now
 WHERE project_id = :project AND task = :task AND fence = :fence AND state = 'crawling';

-- name: crawl_end
UPDATE smap_crawl SET state = :state, error = :error, updated_at = :now
 WHERE project_id = :project AND task = :task AND fence = :fence AND state = 'crawling';

-- name: crawl_left
-- Tasks that have not ended though nobody works on them any more, of a project that still wants posts.
SELECT task.document
  FROM smap_crawl AS task
  JOIN smap_project AS project ON project.project_id = task.project_id
 WHERE task.project_id = :project AND task.state IN ('waiting', 'crawling') AND project.sealed_at IS NULL
   AND project.cancelled_at IS NULL AND project.deleted_at IS NULL
 ORDER BY task.position;

-- name: crawl_lost
-- Platforms on which a holder was lost in mid-crawl.
SELECT DISTINCT platform FROM smap_crawl WHERE project_id = :project AND lost > 0;

-- name: crawl_report
-- The tasks of a project in their order, with the posts that each was the first to find.
SELECT task.position, task.task, task.platform, task.keyword, task.url, task.day, task.state, task.pages,
       coalesce(counted.posts, 0), task.error
  FROM smap_crawl AS task
  LEFT JOIN (SELECT task, count(*) AS posts FROM smap_found WHERE project_id = :project GROUP BY task) AS counted
    ON counted.task = task.task
 WHERE task.project_id = :project AND task.position > :after
 ORDER BY task.position
 LIMIT :room;

-- name: crawl_forget
DELETE FROM smap_crawl WHERE project_id = :project;

-- name: crawl_forget_found
DELETE FROM smap_found WHERE project_id = :project;
