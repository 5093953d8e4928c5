-- name: crawl_plan
-- The tasks of a project. The first plan counts: it is what is crawled, whatever a later order says.
INSERT INTO smap_crawl (project_id, task, position, platform, keyword, url, day, document, state, error, updated_at)
SELECT :project, given.task, given.position, given.platform, given.keyword, given.url, given.day, given.document,
       given.state, given.error, :now::timestamptz
  FROM jsonb_to_recordset(:rows::jsonb) AS given (task text, position integer, platform text, keyword text, url text,
                                                  day text, document text, state text, error text)
 WHERE NOT EXISTS (SELECT 1 FROM smap_crawl WHERE project_id = :project)
ON CONFLICT (project_id, task) DO NOTHING;

-- name: crawl_planned
SELECT document FROM smap_crawl WHERE project_id = :project AND document <> '' ORDER BY position;

-- name: crawl_hold
-- Whoever adds posts to a project and whoever closes it take turns.
SELECT 1 FROM smap_project WHERE project_id = :project FOR UPDATE;

-- name: crawl_begin
-- A newer claim takes the task. One that is taken while somebody crawls was lost by its holder.
UPDATE smap_crawl
   SET fence = :fence, state = 'crawling', updated_at = :now,
       lost = lost + CASE WHEN state = 'crawling' AND fence < :fence THEN 1 ELSE 0 END
 WHERE project_id = :project AND task = :task AND fence <= :fence AND state IN ('waiting', 'crawling');

-- name: crawl_standing
-- How a task stands, and whether its project still wants posts.
SELECT task.state, task.fence, task.cursor, task.ended, task.pages, task.failures, project.found,
       project.project_id IS NOT NULL AND project.sealed_at IS NULL AND project.cancelled_at IS NULL
       AND project.deleted_at IS NULL
  FROM smap_crawl AS task
  LEFT JOIN smap_project AS project ON project.project_id = task.project_id
 WHERE task.project_id = :project AND task.task = :task;

-- name: crawl_shut
-- Which of these projects want no more posts.
SELECT project_id
  FROM jsonb_array_elements_text(:projects::jsonb) AS given (id)
  JOIN smap_project ON project_id = given.id
 WHERE sealed_at IS NOT NULL OR cancelled_at IS NOT NULL OR deleted_at IS NOT NULL;

-- name: crawl_known
-- Which of these posts the project has already.
SELECT known.item
  FROM jsonb_array_elements_text(:items::jsonb) AS given (item)
  JOIN smap_found AS known ON known.project_id = :project AND known.item = given.item;

-- name: crawl_add
-- New posts, as far as there is room and the project is open, and only under the claim that has the task. The project's
-- row is locked, so the room is exact.
WITH fresh AS (
    SELECT given.*
      FROM jsonb_to_recordset(:rows::jsonb) AS given (position integer, item text, crawled_at text)
     WHERE NOT EXISTS (SELECT 1 FROM smap_found AS known
                        WHERE known.project_id = :project AND known.item = given.item)
       AND EXISTS (SELECT 1 FROM smap_crawl AS task
                    WHERE task.project_id = :project AND task.task = :task AND task.fence = :fence
                      AND task.state = 'crawling')
     ORDER BY given.position
     LIMIT coalesce((SELECT greatest(0, :posts_max - found) FROM smap_project
                      WHERE project_id = :project AND sealed_at IS NULL AND cancelled_at IS NULL
                        AND deleted_at IS NULL), 0)
), added AS (
    INSERT INTO smap_found (project_id, item, task, platform, crawled_at)
    SELECT :project, item, :task, :platform, crawled_at FROM fresh
    RETURNING 1
)
UPDATE smap_project SET found = found + (SELECT count(*) FROM added)
 WHERE project_id = :project AND EXISTS (SELECT 1 FROM added);

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

-- name: crawl_close
-- Nobody adds to this project any more. What has not ended by now never will. The project's row is locked.
UPDATE smap_crawl
   SET lost = lost + CASE WHEN state = 'crawling' THEN 1 ELSE 0 END, updated_at = :now,
       error = CASE WHEN cancelled.yes THEN NULL ELSE coalesce(error, 'worker_lost') END,
       state = CASE WHEN cancelled.yes THEN 'cancelled' ELSE 'failed' END
  FROM (SELECT EXISTS (SELECT 1 FROM smap_project
                        WHERE project_id = :project AND (cancelled_at IS NOT NULL OR deleted_at IS NOT NULL)) AS yes
       ) AS cancelled
 WHERE project_id = :project AND state IN ('waiting', 'crawling');

-- name: crawl_left
-- Tasks that have not ended though nobody works on them any more, of a project that still wants posts.
SELECT task.document
  FROM smap_crawl AS task
  JOIN smap_project AS project ON project.project_id = task.project_id
 WHERE task.project_id = :project AND task.state IN ('waiting', 'crawling') AND project.sealed_at IS NULL
   AND project.cancelled_at IS NULL AND project.deleted_at IS NULL
 ORDER BY task.position;

-- name: crawl_found
-- How many posts a project has, whether somebody still waits for them, and the trace that they belong to.
SELECT found, deleted_at IS NULL, traceparent FROM smap_project WHERE project_id = :project;

-- name: crawl_lost
-- Platforms on which a holder was lost in mid-crawl.
SELECT DISTINCT platform FROM smap_crawl WHERE project_id = :project AND lost > 0;

-- name: crawl_unpublished
-- Posts that were found and not told of, of one task or of all.
SELECT item, platform, crawled_at
  FROM smap_found
 WHERE project_id = :project AND (:task::text IS NULL OR task = :task) AND NOT published
 ORDER BY item
 LIMIT :room;

-- name: crawl_published
UPDATE smap_found SET published = true
  FROM jsonb_array_elements_text(:items::jsonb) AS given (item)
 WHERE smap_found.project_id = :project AND smap_found.item = given.item;

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
