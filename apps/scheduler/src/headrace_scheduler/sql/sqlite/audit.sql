-- name: audit_add
INSERT INTO audit_events (day, at, event_id, actor, action, subject, detail)
VALUES (:day, :at, :event_id, :actor, :action, :subject, :detail)
ON CONFLICT DO NOTHING;

-- name: audit_day
SELECT at AS "at [time]", actor, action, subject, detail FROM audit_events WHERE day = :day ORDER BY at, event_id;
