-- name: file_downloaded
-- Once a sink has all of it, the row says so until the end.
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = IF(s.mysql_processed OR s.clickhouse_processed, 'PARTIAL_DONE', 'PARSING'), s.file_size = :size,
       s.download_end_time = UTC_TIMESTAMP(), s.parse_start_time = UTC_TIMESTAMP()
 WHERE s.id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: claim_spooled
-- Same content as a revision before that both sinks have: it goes back to that one. Other content than this revision
-- had: it is another revision. Decided under the lock, for the statements that follow.
UPDATE pm_file_claim c JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
       LEFT JOIN pm_file_revision p ON p.file_id = c.file_id AND p.revision = c.revision - 1
   SET c.spool = :spool,
       c.verdict = CASE WHEN r.content_hash IS NULL AND p.content_hash = :digest AND p.is_whole THEN 'same'
                        WHEN r.content_hash <> :digest THEN 'other' END
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: revision_same
-- The revision before has the stamp of this one from now on.
UPDATE pm_file_revision p JOIN pm_file_claim c ON c.file_id = p.file_id AND p.revision = c.revision - 1
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
   SET p.file_size = r.file_size, p.modified = r.modified, p.seen_at = r.seen_at, p.fetched = :fetched,
       p.archived_as = NULL
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'same'

-- name: revision_other
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision + 1, r.file_size, r.modified, UTC_TIMESTAMP(6)
  FROM pm_file_claim c JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'other'

-- name: revision_dropped
DELETE r FROM pm_file_revision r JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.verdict = 'same'

-- name: file_judged
-- All of the same content is in both sinks, nothing of another one.
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.mysql_processed = (c.verdict = 'same'), s.clickhouse_processed = (c.verdict = 'same'),
       s.mysql_insert_time = IF(c.verdict = 'same', UTC_TIMESTAMP(), NULL),
       s.clickhouse_insert_time = IF(c.verdict = 'same', UTC_TIMESTAMP(), NULL),
       s.state = IF(c.verdict = 'same', 'PARTIAL_DONE', 'PARSING')
 WHERE s.id = :id AND c.epoch = :epoch AND c.verdict IS NOT NULL

-- name: sinks_judged
UPDATE pm_file_sink k JOIN pm_file_claim c ON c.file_id = k.file_id
   SET k.next_batch = 0, k."rows" = 0, k.digest = 0
 WHERE k.file_id = :id AND c.epoch = :epoch AND c.verdict = 'other'

-- name: claim_judged
UPDATE pm_file_claim
   SET revision = revision + CASE verdict WHEN 'same' THEN -1 WHEN 'other' THEN 1 ELSE 0 END, verdict = NULL
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL

-- name: revision_fetched
UPDATE pm_file_revision r JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
   SET r.content_hash = :digest, r.fetched = :fetched, r.file_size = :size
 WHERE r.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: file_fetched
SELECT c.revision, r.version, s.mysql_processed AS "m [bool]", s.clickhouse_processed AS "k [bool]"
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: file_parsed
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = IF(s.mysql_processed OR s.clickhouse_processed, 'PARTIAL_DONE', 'PROCESSING'),
       s.parse_end_time = UTC_TIMESTAMP()
 WHERE s.id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: sinks_recut
-- Its batches are others than those that its checkpoints count: sinks that have not all of it begin anew.
UPDATE pm_file_sink k JOIN pm_file_claim c ON c.file_id = k.file_id JOIN file_processing_state s ON s.id = k.file_id
   SET k.next_batch = 0, k."rows" = 0, k.digest = 0
 WHERE k.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)
   AND NOT COALESCE(IF(k.sink = 'mysql', s.mysql_processed, s.clickhouse_processed), FALSE)

-- name: revision_parsed
UPDATE pm_file_revision r JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
   SET r.counters = :counters, r.batches = :batches, r.batch_size = :batch_size
 WHERE r.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: file_mysql_done
-- The last of both leaves the state to the settlement.
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.mysql_processed = TRUE, s.mysql_insert_time = UTC_TIMESTAMP(), s.state = 'PARTIAL_DONE'
 WHERE s.id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: file_kafka_done
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.clickhouse_processed = TRUE, s.clickhouse_insert_time = UTC_TIMESTAMP(), s.state = 'PARTIAL_DONE'
 WHERE s.id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: file_noted
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.error_message = :reason
 WHERE s.id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)
