-- name: audit_add
INSERT INTO audit_events (day, at, event_id, actor, action, subject, detail, tenant)
VALUES (:day, :at, :event_id, :actor, :action, :subject, :detail, :tenant)
ON CONFLICT DO NOTHING;

-- name: audit_page
SELECT at AS "at [time]", event_id, actor, action, subject, detail, tenant
  FROM audit_events
 WHERE day = :day AND (at, event_id) > (:after_at, :after_id)
 ORDER BY at, event_id
 LIMIT :room;
