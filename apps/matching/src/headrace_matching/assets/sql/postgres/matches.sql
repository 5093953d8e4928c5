-- name: match_put
-- Until the phase that owns it is closed. The row of the job is locked: a phase that closes waits for this, or this
-- for it.
INSERT INTO matching_match AS kept (job_id, product_id, video_id, score, img_id, frame_id, score_pair)
SELECT j.job_id, :product::text, :video::text, :score::double precision, :img::text, :frame::text,
       :score_pair::double precision
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
    ON CONFLICT (job_id, product_id, video_id)
    DO UPDATE SET score = EXCLUDED.score, img_id = EXCLUDED.img_id, frame_id = EXCLUDED.frame_id,
       score_pair = EXCLUDED.score_pair
RETURNING product_id

-- name: matches_page
SELECT product_id, video_id, score, img_id, frame_id, score_pair FROM matching_match
 WHERE job_id = :job AND (product_id, video_id) > (:after_product, :after_video)
 ORDER BY product_id, video_id LIMIT :limit

-- name: results_page
-- Best first; where the product appears is where its best keyframe was taken.
SELECT m.product_id, m.video_id, m.score, m.img_id, m.frame_id, m.score_pair, f.time_s, e.sha256 IS NOT NULL
  FROM matching_match m
  LEFT JOIN matching_asset f ON f.asset_id = m.frame_id AND f.job_id = m.job_id
  LEFT JOIN matching_evidence e
    ON e.job_id = m.job_id AND e.product_id = m.product_id AND e.video_id = m.video_id
 WHERE m.job_id = :job
   AND (m.score < :score OR (m.score = :score AND (m.product_id, m.video_id) > (:after_product, :after_video)))
 ORDER BY m.score DESC, m.product_id, m.video_id LIMIT :limit

-- name: evidence_put
-- As match_put; for a match that there is.
INSERT INTO matching_evidence AS kept (job_id, product_id, video_id, sha256, media_type)
SELECT j.job_id, m.product_id, m.video_id, :sha256::text, :media_type::text
  FROM (SELECT job_id FROM matching_job WHERE job_id = :job AND state = 'running' AND rank <= :rank FOR SHARE) j
  JOIN matching_match m ON m.job_id = j.job_id AND m.product_id = :product AND m.video_id = :video
    ON CONFLICT (job_id, product_id, video_id)
    DO UPDATE SET sha256 = EXCLUDED.sha256, media_type = EXCLUDED.media_type
RETURNING product_id

-- name: evidence
SELECT sha256, media_type FROM matching_evidence
 WHERE job_id = :job AND product_id = :product AND video_id = :video
