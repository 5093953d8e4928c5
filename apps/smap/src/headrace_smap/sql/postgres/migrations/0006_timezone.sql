-- A day is one of a zone, which stands beside it. Days were those of UTC, unsaid; from now on they are Vietnam's unless a
-- setting says otherwise, and `rerun` dates by that.
ALTER TABLE post_analytics ADD COLUMN IF NOT EXISTS timezone text NOT NULL DEFAULT 'UTC';
UPDATE post_analytics
   SET day = (coalesce(published_at, analyzed_at) AT TIME ZONE 'Asia/Ho_Chi_Minh')::date, timezone = 'Asia/Ho_Chi_Minh'
 WHERE isfinite(coalesce(published_at, analyzed_at));
