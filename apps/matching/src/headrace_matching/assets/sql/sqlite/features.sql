-- name: embedding_put
-- Until the phase that owns it is closed.
INSERT INTO matching_embedding (job_id, asset_id, kind, model, vector)
SELECT a.job_id, a.asset_id, a.kind, :model, :vector
  FROM matching_job AS j
  JOIN matching_asset AS a ON a.job_id = j.job_id AND a.asset_id = :asset
 WHERE j.job_id = :job AND j.state = 'running' AND j.rank <= :rank
    ON CONFLICT (job_id, asset_id) DO UPDATE SET model = excluded.model, vector = excluded.vector
RETURNING asset_id

-- name: embeddings_page
SELECT asset_id, kind, model, vector FROM matching_embedding
 WHERE job_id = :job AND (:kind = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit

-- name: keypoints_put
-- As embedding_put.
INSERT INTO matching_keypoints (job_id, asset_id, kind, model, sha256)
SELECT a.job_id, a.asset_id, a.kind, :model, :sha256
  FROM matching_job AS j
  JOIN matching_asset AS a ON a.job_id = j.job_id AND a.asset_id = :asset
 WHERE j.job_id = :job AND j.state = 'running' AND j.rank <= :rank
    ON CONFLICT (job_id, asset_id) DO UPDATE SET model = excluded.model, sha256 = excluded.sha256
RETURNING asset_id

-- name: keypoints_page
SELECT asset_id, kind, model, sha256 FROM matching_keypoints
 WHERE job_id = :job AND (:kind = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit
