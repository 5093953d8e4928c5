-- name: truth_open
INSERT INTO smap_project AS kept (project_id, status, rank, created_at, moved_at)
VALUES (:project, 'INITIALIZING', 0, :now, :now)
    ON CONFLICT (project_id) DO UPDATE SET status = EXCLUDED.status, rank = 0
 WHERE kept.rank < 0 AND kept.deleted_at IS NULL

-- name: truth_know
-- A row for each, so that it can be locked and changed.
INSERT INTO smap_project (project_id, created_at, moved_at)
SELECT project, :now, :now FROM unnest(:projects::text[]) AS asked(project) ORDER BY project
    ON CONFLICT (project_id) DO NOTHING

-- name: truth_settle
-- The counters follow from what this very statement changed, so that a repeat adds nothing. Rows are locked in the
-- order of their keys, those of projects last and for the shortest time. What ended well for a reason was not analysed
-- any more: that lifts no failure.
WITH written AS (
  INSERT INTO smap_item AS kept (project_id, item, state, reason, body, settled_at)
  SELECT project, item, CASE WHEN ok THEN 'done' ELSE 'failed' END, reason, decode(body, 'hex'), :now
    FROM jsonb_to_recordset(:rows) AS ended(project text, item text, ok boolean, reason text, body text)
   ORDER BY project, item
      ON CONFLICT (project_id, item)
      DO UPDATE SET state = 'done', reason = EXCLUDED.reason, body = NULL, lifted_at = EXCLUDED.settled_at
   WHERE kept.state = 'failed' AND EXCLUDED.state = 'done' AND EXCLUDED.reason IS NULL
  RETURNING project_id, state, lifted_at
), changes AS (
  SELECT project_id, count(*) - count(lifted_at) AS settled,
         count(*) FILTER (WHERE state = 'failed') - count(lifted_at) AS failed
    FROM written GROUP BY project_id
)
INSERT INTO smap_project AS kept (project_id, settled, failed, created_at, moved_at)
SELECT project_id, settled, failed, :now, :now FROM changes ORDER BY project_id
    ON CONFLICT (project_id)
    DO UPDATE SET settled = kept.settled + EXCLUDED.settled, failed = kept.failed + EXCLUDED.failed

-- name: truth_failed_of
SELECT item FROM smap_item WHERE project_id = :project AND item = ANY (:items::text[]) AND state = 'failed'

-- name: truth_recount
-- A retry long after the end: the errors are those of now. `done` stays what it was.
UPDATE smap_project SET errors = least(failed + others_failed, final_done)
 WHERE project_id = :project AND finished_at <= :before AND deleted_at IS NULL

-- name: truth_reasons
-- A post that failed again tells why it did this time; nothing is counted here. The rows are locked by `truth_settle`.
UPDATE smap_item AS kept
   SET reason = ended.reason, body = decode(ended.body, 'hex')
  FROM jsonb_to_recordset(:rows) AS ended(project text, item text, reason text, body text)
 WHERE kept.project_id = ended.project AND kept.item = ended.item AND kept.state = 'failed'
   AND kept.reason IS DISTINCT FROM ended.reason

-- name: truth_look
SELECT project, status, coalesce(rank, -1), coalesce(account.total, 0), coalesce(account.done, 0),
       coalesce(account.errors, 0), coalesce(settled, 0), coalesce(failed, 0), coalesce(found, 0), coalesce(others, 0),
       coalesce(others_failed, 0), coalesce(era, ''), crawled_at, moved_at, sealed_at, cancelled_at, finished_at,
       final_total, final_done, final_errors, announced_at, completed_seen_at, deleted_at,
       EXISTS (SELECT 1 FROM projects WHERE id = project), coalesce(traceparent, '')
  FROM unnest(:projects::text[]) AS asked(project) LEFT JOIN smap_project AS account ON project_id = project

-- name: truth_items
SELECT item, state = 'done' FROM smap_item WHERE project_id = :project AND item > :after ORDER BY item LIMIT :room

-- name: truth_mirror
-- What the ledger shows is kept where it is ahead of what was seen before; or as it is, if nobody has kept anything
-- newer than what `from_…` says. The total that we sealed at and a finish are our own, not taken from there.
-- If fewer are counted than were before, items of ours were removed, and what is beyond them is not somebody else's.
WITH seen AS (
  SELECT * FROM jsonb_to_recordset(:rows) AS seen(project text, status text, rank int, total bigint, done bigint,
                errors bigint, others bigint, others_failed bigint, era text, from_rank int, from_total bigint,
                counted bigint, from_others bigint, from_others_failed bigint)
), judged AS (
  SELECT seen.*, seen.counted < kept.done - kept.others AS fewer,
         (from_others, from_others_failed) IS NOT DISTINCT FROM (kept.others, kept.others_failed) AS follows,
         finished_at IS NULL AND (sealed_at IS NULL OR seen.rank > kept.rank) AND
         ((from_rank, from_total) = (kept.rank, kept.total) OR seen.rank > kept.rank
          OR seen.rank = kept.rank AND seen.total > kept.total) AS ahead
    FROM seen JOIN smap_project AS kept ON project_id = project ORDER BY project_id FOR UPDATE OF kept
)
UPDATE smap_project AS kept
   SET status = CASE WHEN ahead THEN judged.status ELSE kept.status END,
       rank = CASE WHEN ahead THEN judged.rank ELSE kept.rank END,
       total = CASE WHEN ahead AND sealed_at IS NULL THEN judged.total ELSE kept.total END,
       done = judged.done,
       errors = judged.errors,
       others = CASE WHEN fewer THEN kept.others WHEN follows THEN judged.others
                     ELSE greatest(kept.others, judged.others) END,
       others_failed = CASE WHEN fewer THEN kept.others_failed WHEN follows THEN judged.others_failed
                            ELSE greatest(kept.others_failed, judged.others_failed) END,
       era = coalesce(judged.era, kept.era),
       moved_at = CASE WHEN (kept.total, kept.done) = (judged.total, judged.done) THEN moved_at ELSE :now END
  FROM judged WHERE project_id = project AND deleted_at IS NULL

-- name: truth_mirror_projects
WITH seen AS (
  SELECT * FROM jsonb_to_recordset(:rows) AS seen(project text, status text, total bigint, done bigint, errors bigint)
), locked AS (
  SELECT seen.* FROM seen JOIN projects ON id = project ORDER BY id FOR UPDATE OF projects
)
UPDATE projects
   SET status = CASE WHEN finished_at IS NULL AND projects.status IS DISTINCT FROM 'CANCELLED'
                     THEN locked.status ELSE projects.status END,
       total = CASE WHEN finished_at IS NULL THEN locked.total ELSE projects.total END,
       done = locked.done,
       errors = locked.errors
  FROM locked WHERE id = project

-- name: truth_seal
-- The first seal fixes the total: the one given, or else what our collector found, or else the one that is shown. A
-- later seal can only raise it, and nothing can after the finish.
INSERT INTO smap_project AS kept (project_id, status, rank, total, sealed_at, created_at, moved_at)
VALUES (:project, 'PROCESSING_WAIT', 2, coalesce(:total::bigint, :shown), :now, :now, :now)
    ON CONFLICT (project_id)
    DO UPDATE SET sealed_at = coalesce(kept.sealed_at, EXCLUDED.sealed_at),
                  total = CASE WHEN kept.sealed_at IS NOT NULL THEN greatest(kept.total, :total::bigint)
                               WHEN :total::bigint IS NULL AND kept.crawled_at IS NOT NULL THEN kept.found
                               ELSE EXCLUDED.total END,
                  status = CASE WHEN kept.rank < 2 THEN EXCLUDED.status ELSE kept.status END,
                  rank = greatest(kept.rank, 2)
 WHERE kept.finished_at IS NULL AND kept.deleted_at IS NULL

-- name: truth_cancel
-- Nothing is found any more, and what was found is all there will be.
UPDATE smap_project
   SET cancelled_at = :now,
       sealed_at = coalesce(sealed_at, :now),
       total = CASE WHEN sealed_at IS NOT NULL THEN total WHEN crawled_at IS NOT NULL THEN found ELSE :shown END,
       status = CASE WHEN rank < 2 THEN 'PROCESSING_WAIT' ELSE status END,
       rank = greatest(rank, 2)
 WHERE project_id = :project AND cancelled_at IS NULL AND finished_at IS NULL AND deleted_at IS NULL

-- name: truth_cancelled
SELECT project_id FROM smap_project WHERE project_id = ANY(:projects::text[]) AND cancelled_at IS NOT NULL

-- name: truth_finish
-- The finish row: whoever comes first writes it, and everybody else reads it. A cancelled project has nothing to tell.
-- While our collector crawls, or before as many ended as it sealed, it is no end, whoever says so.
UPDATE smap_project
   SET status = 'DONE', rank = 4, finished_at = :now, total = :total, done = :done, errors = :errors,
       final_total = :total, final_done = :done, final_errors = :errors, completed_event_id = :event,
       announced_at = CASE WHEN cancelled_at IS NOT NULL OR :announced::boolean THEN :now::timestamptz END
 WHERE project_id = :project AND finished_at IS NULL AND deleted_at IS NULL
   AND CASE WHEN sealed_at IS NULL THEN crawled_at IS NULL ELSE :done >= total END

-- name: truth_completed_seen
-- The last time counts: an earlier one may have been said before the end.
INSERT INTO smap_project AS kept (project_id, completed_seen_at, created_at, moved_at)
SELECT project, :now, :now, :now FROM unnest(:projects::text[]) AS told(project) ORDER BY project
    ON CONFLICT (project_id) DO UPDATE SET completed_seen_at = EXCLUDED.completed_seen_at
 WHERE kept.announced_at IS NULL

-- name: truth_forget
-- The row stays and says so: who read the ledger before could otherwise bring the project back.
INSERT INTO smap_project (project_id, deleted_at, announced_at, created_at, moved_at)
VALUES (:project, :now, :now, :now, :now)
    ON CONFLICT (project_id)
    DO UPDATE SET deleted_at = EXCLUDED.deleted_at, announced_at = EXCLUDED.announced_at, settled = 0, failed = 0

-- name: progress_marks
SELECT project_id, percent, processed FROM smap_shown WHERE project_id = ANY(:projects::text[])

-- name: progress_raise
-- The higher of what is kept and what is to be shown, each by itself.
INSERT INTO smap_shown AS kept (project_id, percent, processed)
SELECT project, percent, processed
  FROM jsonb_to_recordset(:rows) AS told(project text, percent double precision, processed bigint) ORDER BY project
    ON CONFLICT (project_id)
    DO UPDATE SET percent = greatest(kept.percent, EXCLUDED.percent),
                  processed = greatest(kept.processed, EXCLUDED.processed)
RETURNING project_id, percent, processed
