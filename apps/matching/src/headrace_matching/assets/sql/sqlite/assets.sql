-- name: asset_add
-- Only while its job collects. What a collector sends again is the same row.
INSERT INTO matching_asset (asset_id, job_id, kind, owner_id, time_s, sha256, bytes, media_type, url, dead)
SELECT :asset, job_id, :kind, :owner, :time_s, :sha256, :bytes, :media_type, :url, :dead
  FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank
    ON CONFLICT (asset_id) DO UPDATE SET asset_id = excluded.asset_id
RETURNING asset_id

-- name: asset_dead
UPDATE matching_asset SET dead = :reason
 WHERE job_id = (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank)
   AND asset_id = :asset
RETURNING asset_id

-- name: asset
SELECT job_id, kind, owner_id, time_s, sha256, bytes, media_type, url, dead FROM matching_asset
 WHERE asset_id = :asset

-- name: assets_page
SELECT asset_id, kind, owner_id, time_s, url, dead FROM matching_asset
 WHERE job_id = :job AND (:kind = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit

-- name: assets_counted
SELECT kind, count(*), count(dead) FROM matching_asset WHERE job_id = :job GROUP BY kind
