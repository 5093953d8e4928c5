-- name: file_downloaded
-- Once a sink has all of it, the row says so until the end.
UPDATE file_processing_state
   SET state = iif(mysql_processed OR clickhouse_processed, 'PARTIAL_DONE', 'PARSING'), file_size = :size,
       download_end_time = CURRENT_TIMESTAMP, parse_start_time = CURRENT_TIMESTAMP
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: claim_spooled
-- Same content as a revision before that both sinks have: it goes back to that one. Other content than this revision
-- had: it is another revision. Decided first, for the statements that follow.
UPDATE pm_file_claim
   SET spool = :spool,
       verdict = (SELECT CASE WHEN r.content_hash IS NULL AND p.content_hash = :digest AND p.is_whole THEN 'same'
                              WHEN r.content_hash <> :digest THEN 'other' END
                    FROM pm_file_revision r
                         LEFT JOIN pm_file_revision p ON p.file_id = r.file_id AND p.revision = r.revision - 1
                   WHERE r.file_id = pm_file_claim.file_id AND r.revision = pm_file_claim.revision)
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL AND until > (SELECT now FROM pm_clock)

-- name: revision_same
-- The revision before has the stamp of this one from now on.
UPDATE pm_file_revision
   SET file_size = r.file_size, modified = r.modified, seen_at = r.seen_at, fetched = :fetched, archived_as = NULL
  FROM pm_file_claim c JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'same'
   AND pm_file_revision.file_id = :id AND pm_file_revision.revision = c.revision - 1

-- name: revision_other
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision + 1, r.file_size, r.modified, (SELECT now FROM pm_clock)
  FROM pm_file_claim c JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'other'

-- name: revision_dropped
DELETE FROM pm_file_revision
 WHERE file_id = :id AND revision = (SELECT c.revision FROM pm_file_claim c
                                      WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'same')

-- name: file_judged
-- All of the same content is in both sinks, nothing of another one.
UPDATE file_processing_state
   SET mysql_processed = (c.verdict = 'same'), clickhouse_processed = (c.verdict = 'same'),
       mysql_insert_time = iif(c.verdict = 'same', CURRENT_TIMESTAMP, NULL),
       clickhouse_insert_time = iif(c.verdict = 'same', CURRENT_TIMESTAMP, NULL),
       state = iif(c.verdict = 'same', 'PARTIAL_DONE', 'PARSING')
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch AND c.verdict IS NOT NULL

-- name: sinks_judged
UPDATE pm_file_sink SET next_batch = 0, "rows" = 0, digest = '0'
  FROM pm_file_claim c
 WHERE pm_file_sink.file_id = :id AND c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'other'

-- name: claim_judged
UPDATE pm_file_claim
   SET revision = revision + CASE verdict WHEN 'same' THEN -1 WHEN 'other' THEN 1 ELSE 0 END, verdict = NULL
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL

-- name: revision_fetched
UPDATE pm_file_revision SET content_hash = :digest, fetched = :fetched, file_size = :size
  FROM pm_file_claim c
 WHERE pm_file_revision.file_id = :id AND c.file_id = :id AND pm_file_revision.revision = c.revision
   AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: file_fetched
SELECT c.revision, r.version, s.mysql_processed AS "m [bool]", s.clickhouse_processed AS "k [bool]"
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: file_parsed
UPDATE file_processing_state
   SET state = iif(mysql_processed OR clickhouse_processed, 'PARTIAL_DONE', 'PROCESSING'),
       parse_end_time = CURRENT_TIMESTAMP
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: sinks_recut
-- Its batches are others than those that its checkpoints count: sinks that have not all of it begin anew.
UPDATE pm_file_sink SET next_batch = 0, "rows" = 0, digest = '0'
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
 WHERE pm_file_sink.file_id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)
   AND NOT COALESCE(iif(sink = 'mysql', s.mysql_processed, s.clickhouse_processed), FALSE)

-- name: revision_parsed
UPDATE pm_file_revision SET counters = :counters, batches = :batches, batch_size = :batch_size
  FROM pm_file_claim c
 WHERE pm_file_revision.file_id = :id AND c.file_id = :id AND pm_file_revision.revision = c.revision
   AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: file_mysql_done
-- The last of both leaves the state to the settlement.
UPDATE file_processing_state
   SET mysql_processed = TRUE, mysql_insert_time = CURRENT_TIMESTAMP, state = 'PARTIAL_DONE'
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: file_kafka_done
UPDATE file_processing_state
   SET clickhouse_processed = TRUE, clickhouse_insert_time = CURRENT_TIMESTAMP, state = 'PARTIAL_DONE'
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)

-- name: file_noted
UPDATE file_processing_state SET error_message = :reason
  FROM pm_file_claim c
 WHERE id = :id AND c.file_id = :id AND c.epoch = :epoch
   AND c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)
