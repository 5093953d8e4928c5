-- name: asset_add
-- Only while its job collects. The row of the job is locked: a phase that closes waits for this, or this for it. What a
-- collector sends again is the same row.
INSERT INTO matching_asset (asset_id, job_id, kind, owner_id, time_s, sha256, bytes, media_type, url, dead)
SELECT :asset::text, j.job_id, :kind::text, :owner::text, :time_s::double precision, :sha256::text, :bytes::bigint,
       :media_type::text, :url::text, :dead::text
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
    ON CONFLICT (asset_id) DO UPDATE SET asset_id = EXCLUDED.asset_id
RETURNING asset_id

-- name: asset_dead
UPDATE matching_asset a SET dead = :reason
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
 WHERE a.job_id = j.job_id AND a.asset_id = :asset
RETURNING a.asset_id

-- name: asset
SELECT job_id, kind, owner_id, time_s, sha256, bytes, media_type, url, dead FROM matching_asset
 WHERE asset_id = :asset

-- name: assets_page
SELECT asset_id, kind, owner_id, time_s, url, dead FROM matching_asset
 WHERE job_id = :job AND (:kind::text = '' OR kind = :kind) AND asset_id > :after ORDER BY asset_id LIMIT :limit

-- name: assets_counted
SELECT kind, count(*), count(dead) FROM matching_asset WHERE job_id = :job GROUP BY kind
