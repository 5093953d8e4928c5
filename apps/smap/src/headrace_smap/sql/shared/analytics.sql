-- name: outdated_results
-- Results of another model than this one, or dated by another zone, a page at a time.
SELECT minio_path, keyword, crawled_at
  FROM post_analytics
 WHERE project_id = :project AND minio_path > :after AND (model_version <> :version OR timezone <> :timezone)
 ORDER BY minio_path
 LIMIT :room;
