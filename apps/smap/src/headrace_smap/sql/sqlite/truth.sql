-- name: truth_open
INSERT INTO smap_project (project_id, status, rank, created_at, moved_at)
VALUES (:project, 'INITIALIZING', 0, :now, :now)
    ON CONFLICT (project_id) DO UPDATE SET status = excluded.status, rank = 0
 WHERE smap_project.rank < 0 AND smap_project.deleted_at IS NULL

-- name: truth_know
-- A row for each, so that it can be changed.
INSERT INTO smap_project (project_id, created_at, moved_at)
SELECT value, :now, :now FROM json_each(:projects) WHERE true
    ON CONFLICT (project_id) DO NOTHING

-- name: truth_settle
-- The counters follow from what is about to change, and nobody else writes in between: a repeat adds nothing. What
-- ended well for a reason was not analysed any more: that lifts no failure.
INSERT INTO smap_project (project_id, settled, failed, created_at, moved_at)
SELECT project, count(*) FILTER (WHERE state IS NULL),
       count(*) FILTER (WHERE state IS NULL AND NOT ok)
       - count(*) FILTER (WHERE state = 'failed' AND ok AND told IS NULL), :now, :now
  FROM (SELECT value ->> 'project' AS project, value ->> 'item' AS name, value ->> 'ok' AS ok,
               value ->> 'reason' AS told FROM json_each(:rows))
  LEFT JOIN smap_item ON project_id = project AND item = name
 GROUP BY project
    ON CONFLICT (project_id)
    DO UPDATE SET settled = settled + excluded.settled, failed = failed + excluded.failed;
INSERT INTO smap_item (project_id, item, state, reason, body, settled_at)
SELECT value ->> 'project', value ->> 'item', CASE WHEN value ->> 'ok' THEN 'done' ELSE 'failed' END,
       value ->> 'reason', unhex(value ->> 'body'), :now
  FROM json_each(:rows) WHERE true
    ON CONFLICT (project_id, item)
    DO UPDATE SET state = 'done', reason = excluded.reason, body = NULL, lifted_at = excluded.settled_at
 WHERE smap_item.state = 'failed' AND excluded.state = 'done' AND excluded.reason IS NULL

-- name: truth_failed_of
SELECT item FROM smap_item
 WHERE project_id = :project AND item IN (SELECT value FROM json_each(:items)) AND state = 'failed'

-- name: truth_recount
-- A retry long after the end: the errors are those of now. `done` stays what it was.
UPDATE smap_project SET errors = min(failed + others_failed, final_done)
 WHERE project_id = :project AND finished_at <= :before AND deleted_at IS NULL

-- name: truth_reasons
-- A post that failed again tells why it did this time; nothing is counted here.
UPDATE smap_item
   SET reason = ended.value ->> 'reason', body = unhex(ended.value ->> 'body')
  FROM json_each(:rows) AS ended
 WHERE project_id = ended.value ->> 'project' AND item = ended.value ->> 'item' AND state = 'failed'
   AND reason IS NOT ended.value ->> 'reason'

-- name: truth_look
SELECT asked.value, status, coalesce(rank, -1), coalesce(total, 0), coalesce(done, 0),
       coalesce(errors, 0), coalesce(settled, 0), coalesce(failed, 0), coalesce(found, 0), coalesce(others, 0),
       coalesce(others_failed, 0), coalesce(era, ''), crawled_at AS "crawled_at [time]", moved_at AS "moved_at [time]",
       sealed_at AS "sealed_at [time]", cancelled_at AS "cancelled_at [time]", finished_at AS "finished_at [time]",
       final_total, final_done, final_errors, announced_at AS "announced_at [time]",
       completed_seen_at AS "completed_seen_at [time]", deleted_at AS "deleted_at [time]",
       EXISTS (SELECT 1 FROM projects WHERE id = asked.value) AS "there [bool]",
       coalesce(traceparent, '')
  FROM json_each(:projects) AS asked LEFT JOIN smap_project ON project_id = asked.value

-- name: truth_items
SELECT item, state = 'done' AS "ok [bool]" FROM smap_item
 WHERE project_id = :project AND item > :after ORDER BY item LIMIT :room

-- name: truth_mirror
-- What the ledger shows is kept where it is ahead of what was seen before; or as it is, if nobody has kept anything
-- newer than what `from_…` says. The total that we sealed at and a finish are our own, not taken from there.
-- If fewer are counted than were before, items of ours were removed, and what is beyond them is not somebody else's.
WITH seen AS (
  SELECT value ->> 'project' AS project, value ->> 'status' AS status, value ->> 'rank' AS rank,
         value ->> 'total' AS total, value ->> 'done' AS done, value ->> 'errors' AS errors,
         value ->> 'others' AS others, value ->> 'others_failed' AS others_failed, value ->> 'era' AS era,
         value ->> 'from_rank' AS from_rank, value ->> 'from_total' AS from_total, value ->> 'counted' AS counted,
         value ->> 'from_others' AS from_others, value ->> 'from_others_failed' AS from_others_failed
    FROM json_each(:rows)
), judged AS (
  SELECT seen.*, seen.counted < kept.done - kept.others AS fewer,
         (from_others, from_others_failed) IS (kept.others, kept.others_failed) AS follows,
         finished_at IS NULL AND (sealed_at IS NULL OR seen.rank > kept.rank) AND
         ((from_rank, from_total) IS (kept.rank, kept.total) OR seen.rank > kept.rank
          OR seen.rank = kept.rank AND seen.total > kept.total) AS ahead
    FROM seen JOIN smap_project AS kept ON project_id = project
)
UPDATE smap_project
   SET status = CASE WHEN ahead THEN judged.status ELSE smap_project.status END,
       rank = CASE WHEN ahead THEN judged.rank ELSE smap_project.rank END,
       total = CASE WHEN ahead AND sealed_at IS NULL THEN judged.total ELSE smap_project.total END,
       done = judged.done,
       errors = judged.errors,
       others = CASE WHEN fewer THEN smap_project.others WHEN follows THEN judged.others
                     ELSE max(smap_project.others, judged.others) END,
       others_failed = CASE WHEN fewer THEN smap_project.others_failed WHEN follows THEN judged.others_failed
                            ELSE max(smap_project.others_failed, judged.others_failed) END,
       era = coalesce(judged.era, smap_project.era),
       moved_at = CASE WHEN (smap_project.total, smap_project.done) = (judged.total, judged.done) THEN moved_at
                       ELSE :now END
  FROM judged WHERE project_id = project AND deleted_at IS NULL

-- name: truth_mirror_projects
WITH seen AS (
  SELECT value ->> 'project' AS project, value ->> 'status' AS status, value ->> 'total' AS total,
         value ->> 'done' AS done, value ->> 'errors' AS errors
    FROM json_each(:rows)
)
UPDATE projects
   SET status = CASE WHEN finished_at IS NULL AND projects.status IS NOT 'CANCELLED'
                     THEN seen.status ELSE projects.status END,
       total = CASE WHEN finished_at IS NULL THEN seen.total ELSE projects.total END,
       done = seen.done,
       errors = seen.errors
  FROM seen WHERE id = project

-- name: truth_seal
-- The first seal fixes the total: the one given, or else what our collector found, or else the one that is shown. A
-- later seal can only raise it, and nothing can after the finish.
INSERT INTO smap_project (project_id, status, rank, total, sealed_at, created_at, moved_at)
VALUES (:project, 'PROCESSING_WAIT', 2, coalesce(:total, :shown), :now, :now, :now)
    ON CONFLICT (project_id)
    DO UPDATE SET sealed_at = coalesce(sealed_at, excluded.sealed_at),
                  total = CASE WHEN sealed_at IS NOT NULL THEN max(total, coalesce(:total, 0))
                               WHEN :total IS NULL AND crawled_at IS NOT NULL THEN found
                               ELSE excluded.total END,
                  status = CASE WHEN rank < 2 THEN excluded.status ELSE status END,
                  rank = max(rank, 2)
 WHERE smap_project.finished_at IS NULL AND smap_project.deleted_at IS NULL

-- name: truth_cancel
-- Nothing is found any more, and what was found is all there will be.
UPDATE smap_project
   SET cancelled_at = :now,
       sealed_at = coalesce(sealed_at, :now),
       total = CASE WHEN sealed_at IS NOT NULL THEN total WHEN crawled_at IS NOT NULL THEN found ELSE :shown END,
       status = CASE WHEN rank < 2 THEN 'PROCESSING_WAIT' ELSE status END,
       rank = max(rank, 2)
 WHERE project_id = :project AND cancelled_at IS NULL AND finished_at IS NULL AND deleted_at IS NULL

-- name: truth_cancelled
SELECT project_id FROM smap_project
 WHERE project_id IN (SELECT value FROM json_each(:projects)) AND cancelled_at IS NOT NULL

-- name: truth_finish
-- The finish row: whoever comes first writes it, and everybody else reads it. A cancelled project has nothing to tell.
-- While our collector crawls, or before as many ended as it sealed, it is no end, whoever says so.
UPDATE smap_project
   SET status = 'DONE', rank = 4, finished_at = :now, total = :total, done = :done, errors = :errors,
       final_total = :total, final_done = :done, final_errors = :errors, completed_event_id = :event,
       announced_at = CASE WHEN cancelled_at IS NOT NULL OR :announced THEN :now END
 WHERE project_id = :project AND finished_at IS NULL AND deleted_at IS NULL
   AND CASE WHEN sealed_at IS NULL THEN crawled_at IS NULL ELSE :done >= total END

-- name: truth_completed_seen
-- The last time counts: an earlier one may have been said before the end.
INSERT INTO smap_project (project_id, completed_seen_at, created_at, moved_at)
SELECT value, :now, :now, :now FROM json_each(:projects) WHERE true
    ON CONFLICT (project_id) DO UPDATE SET completed_seen_at = excluded.completed_seen_at
 WHERE smap_project.announced_at IS NULL

-- name: truth_forget
-- The row stays and says so: who read the ledger before could otherwise bring the project back.
INSERT INTO smap_project (project_id, deleted_at, announced_at, created_at, moved_at)
VALUES (:project, :now, :now, :now, :now)
    ON CONFLICT (project_id)
    DO UPDATE SET deleted_at = excluded.deleted_at, announced_at = excluded.announced_at, settled = 0, failed = 0

-- name: progress_marks
SELECT project_id, percent, processed FROM smap_shown WHERE project_id IN (SELECT value FROM json_each(:projects))

-- name: progress_raise
-- The higher of what is kept and what is to be shown, each by itself.
INSERT INTO smap_shown AS kept (project_id, percent, processed)
SELECT value ->> 'project', value ->> 'percent', value ->> 'processed' FROM json_each(:rows) WHERE true
    ON CONFLICT (project_id)
    DO UPDATE SET percent = max(kept.percent, EXCLUDED.percent),
                  processed = max(kept.processed, EXCLUDED.processed)
RETURNING project_id, percent, processed
