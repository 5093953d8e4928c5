-- name: match_put
-- Until the phase that owns it is closed.
INSERT INTO matching_match (job_id, product_id, video_id, score, img_id, frame_id, score_pair)
SELECT j.job_id, :product, :video, :score, :img, :frame, :score_pair
  FROM matching_job AS j
 WHERE j.job_id = :job AND j.state = 'running' AND j.rank <= :rank
    ON CONFLICT (job_id, product_id, video_id)
    DO UPDATE SET score = excluded.score, img_id = excluded.img_id, frame_id = excluded.frame_id,
       score_pair = excluded.score_pair
RETURNING product_id

-- name: matches_page
SELECT product_id, video_id, score, img_id, frame_id, score_pair FROM matching_match
 WHERE job_id = :job AND (product_id, video_id) > (:after_product, :after_video)
 ORDER BY product_id, video_id LIMIT :limit

-- name: results_page
-- Best first; where the product appears is where its best keyframe was taken.
SELECT m.product_id, m.video_id, m.score, m.img_id, m.frame_id, m.score_pair, f.time_s,
       e.sha256 IS NOT NULL AS "seen [bool]"
  FROM matching_match m
  LEFT JOIN matching_asset f ON f.asset_id = m.frame_id AND f.job_id = m.job_id
  LEFT JOIN matching_evidence e
    ON e.job_id = m.job_id AND e.product_id = m.product_id AND e.video_id = m.video_id
 WHERE m.job_id = :job
   AND (m.score < :score OR (m.score = :score AND (m.product_id, m.video_id) > (:after_product, :after_video)))
 ORDER BY m.score DESC, m.product_id, m.video_id LIMIT :limit

-- name: evidence_put
-- As match_put; for a match that there is.
INSERT INTO matching_evidence (job_id, product_id, video_id, sha256, media_type)
SELECT j.job_id, m.product_id, m.video_id, :sha256, :media_type
  FROM matching_job AS j
  JOIN matching_match AS m ON m.job_id = j.job_id AND m.product_id = :product AND m.video_id = :video
 WHERE j.job_id = :job AND j.state = 'running' AND j.rank <= :rank
    ON CONFLICT (job_id, product_id, video_id)
    DO UPDATE SET sha256 = excluded.sha256, media_type = excluded.media_type
RETURNING product_id

-- name: evidence
SELECT sha256, media_type FROM matching_evidence
 WHERE job_id = :job AND product_id = :product AND video_id = :video
