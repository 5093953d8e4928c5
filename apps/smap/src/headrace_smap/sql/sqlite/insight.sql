-- name: aggregate_lock
-- A file has one writer at a time.
SELECT json_array_length(:projects);

-- name: aggregate_add
-- Results that were not told before, with day and keyword as the result's own row has them. The lock is held.
WITH given AS (
    SELECT told.value ->> 'project_id' AS project_id, told.value ->> 'item' AS item,
           min(told.value ->> 'platform') AS platform, min(told.value ->> 'sentiment') AS sentiment,
           min(told.value ->> 'risk') AS risk
      FROM json_each(:rows) AS told
     GROUP BY 1, 2
)
INSERT INTO smap_aggregate AS known
       (project_id, day, platform, keyword, sentiment, posts, risky, engagement, impact)
SELECT given.project_id, coalesce(post.day, ''), given.platform, coalesce(post.keyword, ''), given.sentiment,
       count(*), count(*) FILTER (WHERE given.risk IN ('HIGH', 'CRITICAL')),
       coalesce(sum(post.engagement), 0), coalesce(sum(post.impact), 0)
  FROM given
  LEFT JOIN post_analytics AS post ON post.project_id = given.project_id AND post.minio_path = given.item
 WHERE NOT EXISTS (SELECT 1 FROM smap_insight_seen AS seen
                    WHERE seen.project_id = given.project_id AND seen.item = given.item)
 GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (project_id, day, platform, keyword, sentiment) DO UPDATE
   SET posts = known.posts + EXCLUDED.posts, risky = known.risky + EXCLUDED.risky,
       engagement = known.engagement + EXCLUDED.engagement, impact = known.impact + EXCLUDED.impact;

-- name: aggregate_see
-- From now on they have been told.
INSERT INTO smap_insight_seen (project_id, item)
SELECT DISTINCT told.value ->> 'project_id', told.value ->> 'item' FROM json_each(:rows) AS told
 WHERE true
ON CONFLICT DO NOTHING;

-- name: aggregate_count_all
-- The aggregates of one project from its results.
INSERT INTO smap_aggregate (project_id, day, platform, keyword, sentiment, posts, risky, engagement, impact)
SELECT project_id, coalesce(day, ''), platform, coalesce(keyword, ''), coalesce(sentiment, ''),
       count(*), count(*) FILTER (WHERE risk IN ('HIGH', 'CRITICAL')),
       coalesce(sum(engagement), 0), coalesce(sum(impact), 0)
  FROM post_analytics
 WHERE project_id = :project
 GROUP BY 1, 2, 3, 4, 5;

-- name: notice_add
-- One notice per project and receiver, for ever.
INSERT INTO smap_notice (project_id, channel, receiver, notice_id, counts, due_at, created_at)
SELECT :project, told.value ->> 'channel', told.value ->> 'receiver', told.value ->> 'notice_id',
       told.value ->> 'counts', :now, :now
  FROM json_each(:rows) AS told
 WHERE true
ON CONFLICT (notice_id) DO NOTHING;

-- name: notice_claim
-- Due notices are held until `until`; one whose sender vanished is due again then. While a project that we know goes on,
-- its end is not due: somebody has announced it too early. One that was cancelled or deleted has no end to await.
UPDATE smap_notice
   SET due_at = :until, attempts = attempts + 1
 WHERE notice_id IN (SELECT notice_id
                       FROM smap_notice AS waiting
                      WHERE state = 'waiting' AND due_at <= :now
                        AND (alert IS NOT NULL
                             OR NOT EXISTS (SELECT 1 FROM smap_project AS known
                                             WHERE known.project_id = waiting.project_id AND known.status IS NOT NULL
                                               AND coalesce(known.finished_at, known.cancelled_at,
                                                            known.deleted_at) IS NULL))
                      ORDER BY due_at
                      LIMIT :room)
RETURNING notice_id, project_id, channel, receiver, attempts, counts AS "counts [json]", alert;

-- name: notice_list
SELECT channel, receiver, notice_id, state, attempts, error, sent_at AS "sent_at [time]",
       CASE WHEN alert IS NULL THEN 'end' ELSE 'alert' END
  FROM smap_notice
 WHERE project_id = :project
 ORDER BY channel, receiver, notice_id;

-- name: receivers_get
SELECT receivers AS "receivers [json]" FROM smap_receivers WHERE project_id = :project;

-- name: receivers_set
INSERT INTO smap_receivers (project_id, receivers)
SELECT :project, :receivers
 WHERE EXISTS (SELECT 1 FROM projects WHERE id = :project)
ON CONFLICT (project_id) DO UPDATE SET receivers = EXCLUDED.receivers;

-- name: secret_keep
INSERT INTO smap_secret (name, value)
SELECT told.value ->> 'name', told.value ->> 'value' FROM json_each(:rows) AS told WHERE true
ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value;

-- name: report_project
SELECT kept.project_id, coalesce(project.keywords, '[]') AS "keywords [json]", project.date_range AS "range [json]",
       CASE WHEN kept.cancelled_at IS NULL THEN coalesce(project.status, kept.status) ELSE 'CANCELLED' END,
       coalesce(kept.final_total, kept.total), coalesce(kept.final_done, kept.done), kept.errors, kept.created_at AS "created_at [time]",
       kept.finished_at AS "finished_at [time]", coalesce(ordered.name, '')
  FROM smap_project AS kept
  LEFT JOIN projects AS project ON project.id = kept.project_id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = kept.project_id
 WHERE kept.project_id = :project AND kept.deleted_at IS NULL;

-- name: report_counts
-- Everything that is counted by day, platform, keyword and sentiment, from the results themselves; spam apart.
SELECT day, platform, keyword, sentiment, count(*), count(*) FILTER (WHERE risk IN ('HIGH', 'CRITICAL')),
       sum(engagement), coalesce(sum(impact), 0), is_spam AS "is_spam [bool]"
  FROM post_analytics
 WHERE project_id = :project
 GROUP BY 1, 2, 3, 4, 9
 ORDER BY 1, 2, 3, 4, 9;

-- name: report_kinds
-- Spam counts as spam and as nothing else.
WITH post AS (SELECT intent, language, risk, is_spam FROM post_analytics WHERE project_id = :project)
SELECT kind, name, count(*)
  FROM (SELECT 'intent' AS kind, intent AS name FROM post WHERE NOT is_spam
         UNION ALL SELECT 'language', language FROM post WHERE NOT is_spam
         UNION ALL SELECT 'risk', risk FROM post WHERE NOT is_spam
         UNION ALL SELECT 'spam', CASE WHEN is_spam THEN 'spam' ELSE 'genuine' END FROM post)
 GROUP BY 1, 2
 ORDER BY 1, 3 DESC, 2;

-- name: report_aspects
SELECT said.key, coalesce(said.value ->> 'label', ''), count(*)
  FROM post_analytics AS post, json_each(post.aspect_sentiments) AS said
 WHERE post.project_id = :project AND NOT post.is_spam
 GROUP BY 1, 2
 ORDER BY 1, 2;

-- name: report_names
-- Who writes and what they write of, by sentiment: the most frequent names of each kind.
WITH said AS (
    SELECT 'author' AS kind, coalesce(author_name, author_id) AS name, sentiment
      FROM post_analytics WHERE project_id = :project AND NOT is_spam
     UNION ALL
    SELECT 'hashtag', lower(tag.value), post.sentiment
      FROM post_analytics AS post, json_each(post.hashtags) AS tag
     WHERE post.project_id = :project AND NOT post.is_spam
     UNION ALL
    SELECT 'phrase', phrase.value, post.sentiment
      FROM post_analytics AS post, json_each(post.phrases) AS phrase
     WHERE post.project_id = :project AND NOT post.is_spam
), counted AS (
    SELECT kind, name, sentiment, count(*) AS posts FROM said WHERE name <> '' GROUP BY kind, name, sentiment
), summed AS (
    SELECT counted.*, sum(posts) OVER (PARTITION BY kind, name) AS total FROM counted
), placed AS (
    SELECT summed.*, dense_rank() OVER (PARTITION BY kind ORDER BY total DESC, name) AS place FROM summed
)
SELECT kind, name, sentiment, posts FROM placed WHERE place <= :room;

-- name: post_choices
-- What filters offer, as so many posts of a project have it; the most frequent first.
WITH post AS (
    SELECT platform, keyword, aspects, coalesce(author_name, author_id) AS author
      FROM post_analytics WHERE project_id = :project ORDER BY minio_path LIMIT :posts
), counted AS (
    SELECT said.kind, said.name, count(*) AS posts,
           row_number() OVER (PARTITION BY said.kind ORDER BY count(*) DESC, said.name) AS place
      FROM (SELECT 'platform' AS kind, platform AS name FROM post
             UNION ALL SELECT 'keyword', keyword FROM post
             UNION ALL SELECT 'author', author FROM post
             UNION ALL SELECT 'aspect', aspect.value FROM post, json_each(post.aspects) AS aspect) AS said
     WHERE said.name <> ''
     GROUP BY said.kind, said.name
)
SELECT kind, name FROM counted WHERE place <= :room ORDER BY kind, place;

-- name: post_list
-- Posts that match, in the order that was asked for, and how many match. Where no figure is known, the newest first.
SELECT minio_path, platform, keyword, coalesce(author_name, author_id, ''), substr(text, 1, :chars),
       coalesce(url, ''), sentiment, risk, impact, engagement, published_at AS "published_at [time]", day,
       aspects AS "aspects [json]", hashtags AS "hashtags [json]", phrases AS "phrases [json]",
       is_spam AS "is_spam [bool]", simulated AS "simulated [bool]", intent, count(*) OVER ()
  FROM post_analytics
 WHERE project_id = :project
   AND (:sentiment IS NULL OR :sentiment = CASE WHEN sentiment IN ('positive', 'neutral', 'negative')
                                                THEN sentiment ELSE 'unknown' END)
   AND (:risk IS NULL OR risk = :risk OR (:risk = 'RISKY' AND risk IN ('HIGH', 'CRITICAL')))
   AND (:platform IS NULL OR coalesce(nullif(platform, ''), 'unknown') = :platform)
   AND (:keyword IS NULL OR coalesce(nullif(keyword, ''), 'unknown') = :keyword)
   AND (:author IS NULL OR coalesce(author_name, author_id) = :author)
   AND (:intent IS NULL OR coalesce(nullif(intent, ''), 'unknown') = :intent)
   AND (:aspect IS NULL OR EXISTS (SELECT 1 FROM json_each(aspects) WHERE value = :aspect))
   AND (:topic IS NULL OR EXISTS (SELECT 1 FROM json_each(phrases) WHERE value = :topic)
        OR EXISTS (SELECT 1 FROM json_each(hashtags) WHERE '#' || lower(value) = :topic))
   AND (:spam IS NULL OR is_spam = :spam)
   AND (:first IS NULL OR day >= :first)
   AND (:last IS NULL OR day <= :last)
 ORDER BY CASE :order WHEN 'risk' THEN risk_score WHEN 'impact' THEN impact
                      WHEN 'engagement' THEN engagement END DESC NULLS LAST,
          published_at DESC NULLS LAST, minio_path
 LIMIT :room OFFSET :skip;

-- name: report_missing
-- What posts do not tell, and how many of them.
SELECT said.value, count(*)
  FROM post_analytics AS post, json_each(post.missing) AS said
 WHERE post.project_id = :project
 GROUP BY 1
 ORDER BY 2 DESC, 1;

-- name: report_top
-- Where impact is unknown, what is most of a risk comes first.
SELECT minio_path, platform, coalesce(author_name, author_id, ''), substr(text, 1, 280), coalesce(url, ''), sentiment,
       risk, impact, engagement, published_at AS "published_at [time]", missing AS "missing [json]",
       simulated AS "simulated [bool]"
  FROM post_analytics
 WHERE project_id = :project AND NOT is_spam
 ORDER BY impact DESC NULLS LAST, risk_score DESC NULLS LAST, minio_path
 LIMIT :room;

-- name: report_errors
SELECT coalesce(nullif(CASE WHEN instr(reason, ':') > 0 THEN substr(reason, 1, instr(reason, ':') - 1) ELSE reason END,
                       ''), 'unknown') AS rule, count(*), min(item)
  FROM smap_item
 WHERE project_id = :project AND state = 'failed'
 GROUP BY 1
 ORDER BY 2 DESC, 1
 LIMIT :room;

-- name: report_list
SELECT kept.project_id, coalesce(ordered.name, ''), coalesce(project.keywords, '[]') AS "keywords [json]",
       CASE WHEN kept.cancelled_at IS NULL THEN coalesce(project.status, kept.status) ELSE 'CANCELLED' END,
       kept.total, kept.done, kept.errors, kept.created_at AS "created_at [time]", kept.finished_at AS "finished_at [time]",
       EXISTS (SELECT 1 FROM post_analytics AS post WHERE post.project_id = kept.project_id AND post.simulated) AS "simulated [bool]"
  FROM smap_project AS kept
  LEFT JOIN projects AS project ON project.id = kept.project_id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = kept.project_id
 WHERE kept.deleted_at IS NULL
 ORDER BY kept.created_at DESC, kept.project_id DESC
 LIMIT :room;
