-- name: queue_add
INSERT INTO tenant_queues (number, tenant, priority) VALUES (:number, :tenant, :priority) ON CONFLICT DO NOTHING;

-- name: queue_row
SELECT tenant, priority FROM tenant_queues WHERE number = :number;

-- name: queues
SELECT number, tenant, priority FROM tenant_queues;

-- name: queue_mark
-- The time to live is Cassandra's way to forget.
INSERT INTO queue_marks (day, due_at, number) SELECT :day, :due_at, :number WHERE :ttl_s > 0 ON CONFLICT DO NOTHING;

-- name: queue_marks
SELECT DISTINCT number FROM queue_marks WHERE day = :day AND due_at >= :since AND due_at <= :until;

-- name: queue_marks_delete
-- This day and all before.
DELETE FROM queue_marks WHERE day <= :day;
