-- name: upsert_post_analytics
-- All results of a batch but those of deleted projects.
INSERT INTO post_analytics
       (project_id, minio_path, keyword, crawled_at, published_at, day, analyzed_at, model_version, post_id,
        platform, author_id, author_name, followers, likes, comments, shares, views, url, text, language, hashtags,
        intent, intent_score, is_spam, spam_score, spam_reasons, keywords, phrases, aspects, sentiment,
        sentiment_score, aspect_sentiments, reach, engagement, engagement_rate, impact, risk, risk_score, missing,
        uncertain, simulated, timezone)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20, value ->> 21, value ->> 22,
       value ->> 23, value ->> 24, value ->> 25, value ->> 26, value ->> 27, value ->> 28, value ->> 29,
       value ->> 30, value ->> 31, value ->> 32, value ->> 33, value ->> 34, value ->> 35, value ->> 36,
       value ->> 37, value ->> 38, value ->> 39, value ->> 40, value ->> 41
  FROM json_each(:rows)
 WHERE value ->> 0 NOT IN (SELECT project_id FROM smap_project
                            WHERE project_id IN (SELECT value FROM json_each(:projects)) AND deleted_at IS NOT NULL)
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
SELECT given.value, account.cancelled_at IS NOT NULL AS "cancelled [bool]",
       account.deleted_at IS NOT NULL AS "deleted [bool]", project.keywords AS "keywords [json]",
       project.date_range AS "date_range [json]"
  FROM json_each(:projects) AS given
  LEFT JOIN smap_project AS account ON account.project_id = given.value
  LEFT JOIN projects AS project ON project.id = given.value;

-- name: begin_attempts
-- One more attempt for each, once per `charge`: the same again, after a lost answer or a failure, charges nothing.
INSERT INTO smap_attempt (project_id, item, attempts, charge, at)
SELECT value ->> 'project_id', value ->> 'item', 1, :charge, :now FROM json_each(:rows) WHERE true
    ON CONFLICT (project_id, item) DO UPDATE
   SET attempts = smap_attempt.attempts + (smap_attempt.charge <> EXCLUDED.charge), charge = EXCLUDED.charge, at = :now
RETURNING project_id, item, attempts;

-- name: take_back_attempts
-- What `charge` has begun is over, and it lives. Again: nothing is left of it.
UPDATE smap_attempt
   SET attempts = attempts - 1, charge = ''
 WHERE (project_id, item) IN (SELECT value ->> 'project_id', value ->> 'item' FROM json_each(:rows))
   AND charge = :charge;

-- name: count_attempts
-- Those of others: what `charge` has begun it knows itself.
SELECT known.project_id, known.item, known.attempts - (known.charge = :charge)
  FROM json_each(:rows) AS told
  JOIN smap_attempt AS known ON known.project_id = told.value ->> 'project_id' AND known.item = told.value ->> 'item';

-- name: forget_attempts
DELETE FROM smap_attempt
 WHERE (project_id, item) IN (SELECT value ->> 'project_id', value ->> 'item' FROM json_each(:rows));

-- name: label_candidates
-- Posts that people may label, a page at a time: of some projects or of every one, uncertain ones only or all.
SELECT project_id, minio_path, post_id, platform, text, sentiment, intent, aspects AS "aspects [json]",
       uncertain AS "uncertain [json]"
  FROM post_analytics
 WHERE (project_id, minio_path) > (:project, :path)
   AND (:every OR project_id IN (SELECT value FROM json_each(:projects)))
   AND NOT is_spam AND language <> 'other' AND (NOT :uncertain OR uncertain <> '{}')
 ORDER BY project_id, minio_path
 LIMIT :room;

-- name: letter_posts
-- How the posts of letters ended by the truth, if they did, and whether their project was deleted.
SELECT asked.value ->> 'project', asked.value ->> 'item', kept.state,
       EXISTS (SELECT 1 FROM smap_deletion WHERE project_id = asked.value ->> 'project') AS "gone [bool]"
  FROM json_each(:rows) AS asked
  LEFT JOIN smap_item AS kept ON kept.project_id = asked.value ->> 'project' AND kept.item = asked.value ->> 'item'

-- name: letter_failed
-- How many posts are failed, by the truth.
SELECT coalesce(sum(failed), 0) FROM smap_project WHERE deleted_at IS NULL
