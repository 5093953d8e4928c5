-- name: embedding_put
-- Until the phase that owns it is closed. The row of the job is locked: a phase that closes waits for this, or this
-- for it.
INSERT INTO matching_embedding AS kept (job_id, asset_id, kind, model, vector)
SELECT a.job_id, a.asset_id, a.kind, :model::text, :vector::bytea
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
  JOIN matching_asset a ON a.job_id = j.job_id AND a.asset_id = :asset
    ON CONFLICT (job_id, asset_id) DO UPDATE SET model = EXCLUDED.model, vector = EXCLUDED.vector
RETURNING asset_id

-- name: embeddings_page
SELECT asset_id, kind, model, vector FROM matching_embedding
 WHERE job_id = :job AND (:kind::text = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit

-- name: keypoints_put
-- As embedding_put.
INSERT INTO matching_keypoints AS kept (job_id, asset_id, kind, model, sha256)
SELECT a.job_id, a.asset_id, a.kind, :model::text, :sha256::text
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
  JOIN matching_asset a ON a.job_id = j.job_id AND a.asset_id = :asset
    ON CONFLICT (job_id, asset_id) DO UPDATE SET model = EXCLUDED.model, sha256 = EXCLUDED.sha256
RETURNING asset_id

-- name: keypoints_page
SELECT asset_id, kind, model, sha256 FROM matching_keypoints
 WHERE job_id = :job AND (:kind::text = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit
