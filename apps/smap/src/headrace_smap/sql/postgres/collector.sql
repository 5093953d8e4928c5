-- name: crawl_plan
-- The tasks of a project. The first plan counts: it is what is crawled, whatever a later order says.
INSERT INTO smap_crawl (project_id, task, position, platform, keyword, url, day, document, state, error, updated_at)
SELECT :project, given.task, given.position, given.platform, given.keyword, given.url, given.day, given.document,
       given.state, given.error, :now::timestamptz
  FROM jsonb_to_recordset(:rows::jsonb) AS given (task text, position integer, platform text, keyword text, url text,
                                                  day text, document text, state text, error text)
 WHERE NOT EXISTS (SELECT 1 FROM smap_crawl WHERE project_id = :project)
ON CONFLICT (project_id, task) DO NOTHING;

-- name: crawl_hold
-- Whoever adds posts to a project and whoever closes it take turns.
SELECT 1 FROM smap_project WHERE project_id = :project FOR UPDATE;

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

-- name: crawl_found
-- How many posts a project has, whether somebody still waits for them, and the trace that they belong to.
SELECT found, deleted_at IS NULL, traceparent FROM smap_project WHERE project_id = :project;

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
