-- name: crawl_plan
-- The tasks of a project. The first plan counts: it is what is crawled, whatever a later order says.
INSERT INTO smap_crawl (project_id, task, position, platform, keyword, url, day, document, state, error, updated_at)
SELECT :project, value ->> 'task', value ->> 'position', value ->> 'platform', value ->> 'keyword', value ->> 'url',
       value ->> 'day', value ->> 'document', value ->> 'state', value ->> 'error', :now
  FROM json_each(:rows)
 WHERE NOT EXISTS (SELECT 1 FROM smap_crawl WHERE project_id = :project)
ON CONFLICT (project_id, task) DO NOTHING;

-- name: crawl_hold
-- Whoever adds posts to a project and whoever closes it take turns: there is one writer.
SELECT 1 FROM smap_project WHERE project_id = :project;

-- name: crawl_standing
-- How a task stands, and whether its project still wants posts.
SELECT task.state, task.fence, task.cursor, task.ended AS "ended [bool]", task.pages, task.failures, project.found,
       project.project_id IS NOT NULL AND project.sealed_at IS NULL AND project.cancelled_at IS NULL
       AND project.deleted_at IS NULL AS "open [bool]"
  FROM smap_crawl AS task
  LEFT JOIN smap_project AS project ON project.project_id = task.project_id
 WHERE task.project_id = :project AND task.task = :task;

-- name: crawl_shut
-- Which of these projects want no more posts.
SELECT project_id
  FROM json_each(:projects) AS given
  JOIN smap_project ON project_id = given.value
 WHERE sealed_at IS NOT NULL OR cancelled_at IS NOT NULL OR deleted_at IS NOT NULL;

-- name: crawl_known
-- Which of these posts the project has already.
SELECT known.item
  FROM json_each(:items) AS given
  JOIN smap_found AS known ON known.project_id = :project AND known.item = given.value;

-- name: crawl_add
-- New posts, as far as there is room and the project is open, and only under the claim that has the task. There is one
-- writer, so the room is exact.
INSERT INTO smap_found (project_id, item, task, platform, crawled_at)
SELECT :project, value ->> 'item', :task, :platform, value ->> 'crawled_at'
  FROM json_each(:rows)
 WHERE NOT EXISTS (SELECT 1 FROM smap_found AS known
                    WHERE known.project_id = :project AND known.item = value ->> 'item')
   AND EXISTS (SELECT 1 FROM smap_crawl AS task
                WHERE task.project_id = :project AND task.task = :task AND task.fence = :fence
                  AND task.state = 'crawling')
 ORDER BY value ->> 'position'
 LIMIT coalesce((SELECT max(0, :posts_max - found) FROM smap_project
                  WHERE project_id = :project AND sealed_at IS NULL AND cancelled_at IS NULL
                    AND deleted_at IS NULL), 0);
UPDATE smap_project SET found = found + changes() WHERE project_id = :project;

-- name: crawl_close
-- Nobody adds to this project any more. What has not ended by now never will.
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
SELECT found, deleted_at IS NULL AS "wanted [bool]", traceparent FROM smap_project WHERE project_id = :project;

-- name: crawl_unpublished
-- Posts that were found and not told of, of one task or of all.
SELECT item, platform, crawled_at
  FROM smap_found
 WHERE project_id = :project AND (:task IS NULL OR task = :task) AND NOT published
 ORDER BY item
 LIMIT :room;

-- name: crawl_published
UPDATE smap_found SET published = 1
 WHERE project_id = :project AND item IN (SELECT value FROM json_each(:items));
