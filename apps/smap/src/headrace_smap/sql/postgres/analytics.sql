-- name: upsert_post_analytics
-- All results of a batch but those of deleted projects. In the order of the key, so that two batches wait for each
-- other and never in a circle.
INSERT INTO post_analytics
       (project_id, minio_path, keyword, crawled_at, published_at, day, analyzed_at, model_version, post_id,
        platform, author_id, author_name, followers, likes, comments, shares, views, url, text, language, hashtags,
        intent, intent_score, is_spam, spam_score, spam_reasons, keywords, phrases, aspects, sentiment,
        sentiment_score, aspect_sentiments, reach, engagement, engagement_rate, impact, risk, risk_score, missing,
        uncertain, simulated, timezone)
SELECT told ->> 0, told ->> 1, told ->> 2, told ->> 3, (told ->> 4)::timestamptz, (told ->> 5)::date,
       (told ->> 6)::timestamptz, told ->> 7, told ->> 8, told ->> 9, told ->> 10, told ->> 11,
       (told ->> 12)::bigint, (told ->> 13)::bigint, (told ->> 14)::bigint, (told ->> 15)::bigint,
       (told ->> 16)::bigint, told ->> 17, told ->> 18, told ->> 19, told -> 20, told ->> 21,
       (told ->> 22)::double precision, (told ->> 23)::boolean, (told ->> 24)::double precision, told -> 25,
       told -> 26, told -> 27, told -> 28, told ->> 29, (told ->> 30)::double precision, told -> 31,
       (told ->> 32)::bigint, (told ->> 33)::bigint, (told ->> 34)::double precision,
       (told ->> 35)::double precision, told ->> 36, (told ->> 37)::double precision, told -> 38,
       told -> 39, (told ->> 40)::boolean, told ->> 41
  FROM jsonb_array_elements(:rows::jsonb) AS told
 WHERE told ->> 0 <> ALL (ARRAY(SELECT project_id FROM smap_project
                                 WHERE project_id = ANY (:projects::text[]) AND deleted_at IS NOT NULL))
 ORDER BY told ->> 0, told ->> 1
    ON CONFLICT (project_id, minio_path) DO UPDATE
   SET post_id = EXCLUDED.post_id, platform = EXCLUDED.platform, keyword = EXCLUDED.keyword,
       language = EXCLUDED.language, author_id = EXCLUDED.author_id, author_name = EXCLUDED.author_name,
       followers = EXCLUDED.followers, likes = EXCLUDED.likes, comments = EXCLUDED.comments,
       shares = EXCLUDED.shares, views = EXCLUDED.views, published_at = EXCLUDED.published_at,
       day = EXCLUDED.day, url = EXCLUDED.url, text = EXCLUDED.text, hashtags = EXCLUDED.hashtags,
       intent = EXCLUDED.intent, intent_score = EXCLUDED.intent_score, is_spam = EXCLUDED.is_spam,
       spam_score = EXCLUDED.spam_score, spam_reasons = EXCLUDED.spam_reasons, keywords = EXCLUDED.keywords,
       phrases = EXCLUDED.phrases, aspects = EXCLUDED.aspects, sentiment = EXCLUDED.sentiment,
       sentiment_score = EXCLUDED.sentiment_score, aspect_sentiments = EXCLUDED.aspect_sentiments,
       reach = EXCLUDED.reach, engagement = EXCLUDED.engagement, engagement_rate = EXCLUDED.engagement_rate,
       impact = EXCLUDED.impact, risk = EXCLUDED.risk, risk_score = EXCLUDED.risk_score, missing = EXCLUDED.missing,
       uncertain = EXCLUDED.uncertain, simulated = EXCLUDED.simulated, crawled_at = EXCLUDED.crawled_at,
       analyzed_at = EXCLUDED.analyzed_at, model_version = EXCLUDED.model_version, timezone = EXCLUDED.timezone;

-- name: analytics_projects
-- What the analysis needs to know of projects: whether somebody cancelled or deleted them, what they look for, and when.
SELECT given.project_id, account.cancelled_at IS NOT NULL, account.deleted_at IS NOT NULL, project.keywords,
       project.date_range
  FROM unnest(:projects::text[]) AS given (project_id)
  LEFT JOIN smap_project AS account ON account.project_id = given.project_id
  LEFT JOIN projects AS project ON project.id = given.project_id;

-- name: begin_attempts
-- One more attempt for each, once per `charge`: the same again, after a lost answer or a failure, charges nothing.
INSERT INTO smap_attempt AS known (project_id, item, attempts, charge, at)
SELECT told.project_id, told.item, 1, :charge, :now
  FROM jsonb_to_recordset(:rows::jsonb) AS told (project_id text, item text)
 ORDER BY told.project_id, told.item
    ON CONFLICT (project_id, item) DO UPDATE
   SET attempts = known.attempts + (known.charge <> EXCLUDED.charge)::integer, charge = EXCLUDED.charge, at = :now
RETURNING known.project_id, known.item, known.attempts;

-- name: take_back_attempts
-- What `charge` has begun is over, and it lives. Again: nothing is left of it.
UPDATE smap_attempt AS known
   SET attempts = known.attempts - 1, charge = ''
  FROM jsonb_to_recordset(:rows::jsonb) AS told (project_id text, item text)
 WHERE known.project_id = told.project_id AND known.item = told.item AND known.charge = :charge;

-- name: count_attempts
-- Those of others: what `charge` has begun it knows itself.
SELECT known.project_id, known.item, known.attempts - (known.charge = :charge)::integer
  FROM jsonb_to_recordset(:rows::jsonb) AS told (project_id text, item text)
  JOIN smap_attempt AS known ON known.project_id = told.project_id AND known.item = told.item;

-- name: forget_attempts
DELETE FROM smap_attempt AS known
 USING jsonb_to_recordset(:rows::jsonb) AS told (project_id text, item text)
 WHERE known.project_id = told.project_id AND known.item = told.item;

-- name: label_candidates
-- Posts that people may label, a page at a time: of some projects or of every one, uncertain ones only or all.
SELECT project_id, minio_path, post_id, platform, text, sentiment, intent, aspects, uncertain
  FROM post_analytics
 WHERE (project_id, minio_path) > (:project, :path)
   AND (:every OR project_id = ANY (:projects::text[]))
   AND NOT is_spam AND language <> 'other' AND (NOT :uncertain OR uncertain <> '{}')
 ORDER BY project_id, minio_path
 LIMIT :room;

-- name: letter_posts
-- How the posts of letters ended by the truth, if they did, and whether their project was deleted.
SELECT asked.project, asked.item, kept.state,
       EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = asked.project)
  FROM jsonb_to_recordset(:rows) AS asked(project text, item text)
  LEFT JOIN smap_item AS kept ON kept.project_id = asked.project AND kept.item = asked.item

-- name: letter_failed
-- How many posts are failed, by the truth.
SELECT coalesce(sum(failed), 0)::bigint FROM smap_project WHERE deleted_at IS NULL
