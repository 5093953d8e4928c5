-- A day is one of a zone, which stands beside it. Days were those of UTC, unsaid; from now on they are Vietnam's unless a
-- setting says otherwise, and `rerun` dates by that. Vietnam is seven hours ahead and has been since 1975.
ALTER TABLE post_analytics ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
UPDATE post_analytics
   SET day = date(coalesce(published_at, analyzed_at), '+7 hours'), timezone = 'Asia/Ho_Chi_Minh'
 WHERE date(coalesce(published_at, analyzed_at), '+7 hours') IS NOT NULL;
