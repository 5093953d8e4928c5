-- name: aggregate_lock
-- Whoever adds to a project's aggregates and whoever makes them anew take turns; always in the same order.
SELECT count(pg_advisory_xact_lock(hashtext('smap_aggregate'), hashtext(given.project_id)))
  FROM (SELECT value AS project_id FROM jsonb_array_elements_text(:projects) ORDER BY 1) AS given;

-- name: aggregate_add
-- Results that were not told before, with day and keyword as the result's own row has them. The lock is held.
WITH given AS (
    SELECT DISTINCT ON (told.project_id, told.item) told.*
      FROM jsonb_to_recordset(:rows)
        AS told (project_id text, item text, platform text, sentiment text, risk text)
     ORDER BY told.project_id, told.item
)
INSERT INTO smap_aggregate AS known
       (project_id, day, platform, keyword, sentiment, posts, risky, engagement, impact)
SELECT given.project_id, coalesce(post.day::text, ''), given.platform, coalesce(post.keyword, ''), given.sentiment,
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
SELECT DISTINCT told.project_id, told.item
  FROM jsonb_to_recordset(:rows) AS told (project_id text, item text)
ON CONFLICT DO NOTHING;

-- name: aggregate_count_all
-- The aggregates of one project from its results.
INSERT INTO smap_aggregate (project_id, day, platform, keyword, sentiment, posts, risky, engagement, impact)
SELECT project_id, coalesce(day::text, ''), platform, coalesce(keyword, ''), coalesce(sentiment, ''),
       count(*), count(*) FILTER (WHERE risk IN ('HIGH', 'CRITICAL')),
       coalesce(sum(engagement), 0), coalesce(sum(impact), 0)
  FROM post_analytics
 WHERE project_id = :project
 GROUP BY 1, 2, 3, 4, 5;

-- name: notice_add
-- One notice per project and receiver, for ever.
INSERT INTO smap_notice (project_id, channel, receiver, notice_id, counts, due_at, created_at)
SELECT :project, told.channel, told.receiver, told.notice_id, told.counts, :now, :now
  FROM jsonb_to_recordset(:rows) AS told (channel text, receiver text, notice_id text, counts jsonb)
ON CONFLICT (notice_id) DO NOTHING;

-- name: notice_claim
-- Due notices are held until `until`; one whose sender vanished is due again then. While a project that we know goes on,
-- its end is not due: somebody has announced it too early. One that was cancelled or deleted has no end to await.
UPDATE smap_notice AS notice
   SET due_at = :until, attempts = notice.attempts + 1
  FROM (SELECT notice_id
          FROM smap_notice AS waiting
         WHERE state = 'waiting' AND due_at <= :now
           AND (alert IS NOT NULL
                OR NOT EXISTS (SELECT 1 FROM smap_project AS known
                                WHERE known.project_id = waiting.project_id AND known.status IS NOT NULL
                                  AND coalesce(known.finished_at, known.cancelled_at, known.deleted_at) IS NULL))
         ORDER BY due_at
         LIMIT :room
           FOR UPDATE SKIP LOCKED) AS due
 WHERE notice.notice_id = due.notice_id
RETURNING notice.notice_id, notice.project_id, notice.channel, notice.receiver, notice.attempts, notice.counts,
          notice.alert;

-- name: notice_list
SELECT channel, receiver, notice_id, state, attempts, error, sent_at,
       CASE WHEN alert IS NULL THEN 'end' ELSE 'alert' END
  FROM smap_notice
 WHERE project_id = :project
 ORDER BY channel, receiver, notice_id;

-- name: receivers_get
SELECT receivers FROM smap_receivers WHERE project_id = :project;

-- name: receivers_set
INSERT INTO smap_receivers (project_id, receivers)
SELECT :project, :receivers::jsonb
 WHERE EXISTS (SELECT 1 FROM projects WHERE id = :project)
ON CONFLICT (project_id) DO UPDATE SET receivers = EXCLUDED.receivers;

-- name: secret_keep
INSERT INTO smap_secret (name, value)
SELECT told.name, told.value FROM jsonb_to_recordset(:rows) AS told (name text, value text) ORDER BY told.name
ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value;

-- name: report_project
SELECT kept.project_id, coalesce(project.keywords, '[]'), project.date_range,
       CASE WHEN kept.cancelled_at IS NULL THEN coalesce(project.status, kept.status) ELSE 'CANCELLED' END,
       coalesce(kept.final_total, kept.total), coalesce(kept.final_done, kept.done),
       kept.errors, kept.created_at, kept.finished_at, coalesce(ordered.name, '')
  FROM smap_project AS kept
  LEFT JOIN projects AS project ON project.id = kept.project_id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = kept.project_id
 WHERE kept.project_id = :project AND kept.deleted_at IS NULL;

-- name: report_counts
-- Everything that is counted by day, platform, keyword and sentiment, from the results themselves; spam apart.
SELECT day::text, platform, keyword, sentiment, count(*), count(*) FILTER (WHERE risk IN ('HIGH', 'CRITICAL')),
       sum(engagement)::bigint, coalesce(sum(impact), 0), is_spam
  FROM post_analytics
 WHERE project_id = :project
 GROUP BY 1, 2, 3, 4, 9
 ORDER BY 1, 2, 3, 4, 9;

-- name: report_kinds
-- Spam counts as spam and as nothing else.
SELECT kind, name, count(*)
  FROM post_analytics AS post,
       LATERAL (VALUES ('intent', post.intent), ('language', post.language), ('risk', post.risk),
                       ('spam', CASE WHEN post.is_spam THEN 'spam' ELSE 'genuine' END)) AS said (kind, name)
 WHERE post.project_id = :project AND (NOT post.is_spam OR said.kind = 'spam')
 GROUP BY 1, 2
 ORDER BY 1, 3 DESC, 2;

-- name: report_aspects
SELECT said.key, coalesce(said.value ->> 'label', ''), count(*)
  FROM post_analytics AS post, jsonb_each(post.aspect_sentiments) AS said
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
      FROM post_analytics AS post, jsonb_array_elements_text(post.hashtags) AS tag (value)
     WHERE post.project_id = :project AND NOT post.is_spam
     UNION ALL
    SELECT 'phrase', phrase.value, post.sentiment
      FROM post_analytics AS post, jsonb_array_elements_text(post.phrases) AS phrase (value)
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
      FROM (SELECT kind, name FROM post, LATERAL (VALUES ('platform', platform), ('keyword', keyword),
                                                         ('author', author)) AS each (kind, name)
             UNION ALL
            SELECT 'aspect', aspect.value FROM post, jsonb_array_elements_text(post.aspects) AS aspect (value)) AS said
     WHERE said.name <> ''
     GROUP BY said.kind, said.name
)
SELECT kind, name FROM counted WHERE place <= :room ORDER BY kind, place;

-- name: post_list
-- Posts that match, in the order that was asked for, and how many match. Where no figure is known, the newest first.
SELECT minio_path, platform, keyword, coalesce(author_name, author_id, ''), left(text, :chars), coalesce(url, ''),
       sentiment, risk, impact, engagement, published_at, day::text, aspects, hashtags, phrases, is_spam, simulated,
       intent, count(*) OVER ()
  FROM post_analytics
 WHERE project_id = :project
   AND (:sentiment::text IS NULL OR :sentiment = CASE WHEN sentiment IN ('positive', 'neutral', 'negative')
                                                      THEN sentiment ELSE 'unknown' END)
   AND (:risk::text IS NULL OR risk = :risk OR (:risk = 'RISKY' AND risk IN ('HIGH', 'CRITICAL')))
   AND (:platform::text IS NULL OR coalesce(nullif(platform, ''), 'unknown') = :platform)
   AND (:keyword::text IS NULL OR coalesce(nullif(keyword, ''), 'unknown') = :keyword)
   AND (:author::text IS NULL OR coalesce(author_name, author_id) = :author)
   AND (:intent::text IS NULL OR coalesce(nullif(intent, ''), 'unknown') = :intent)
   AND (:aspect::text IS NULL OR aspects @> jsonb_build_array(:aspect::text))
   AND (:topic::text IS NULL OR phrases @> jsonb_build_array(:topic::text)
        OR EXISTS (SELECT 1 FROM jsonb_array_elements_text(hashtags) AS tag (value) WHERE '#' || lower(value) = :topic))
   AND (:spam::boolean IS NULL OR is_spam = :spam)
   AND (:first::date IS NULL OR day >= :first::date)
   AND (:last::date IS NULL OR day <= :last::date)
 ORDER BY CASE :order::text WHEN 'risk' THEN risk_score WHEN 'impact' THEN impact
                            WHEN 'engagement' THEN engagement END DESC NULLS LAST,
          published_at DESC NULLS LAST, minio_path
 LIMIT :room OFFSET :skip;

-- name: report_missing
-- What posts do not tell, and how many of them.
SELECT said.value, count(*)
  FROM post_analytics AS post, jsonb_array_elements_text(post.missing) AS said (value)
 WHERE post.project_id = :project
 GROUP BY 1
 ORDER BY 2 DESC, 1;

-- name: report_top
-- Where impact is unknown, what is most of a risk comes first.
SELECT minio_path, platform, coalesce(author_name, author_id, ''), left(text, 280), coalesce(url, ''), sentiment, risk,
       impact, engagement, published_at, missing, simulated
  FROM post_analytics
 WHERE project_id = :project AND NOT is_spam
 ORDER BY impact DESC NULLS LAST, risk_score DESC NULLS LAST, minio_path
 LIMIT :room;

-- name: report_errors
SELECT coalesce(nullif(split_part(reason, ':', 1), ''), 'unknown'), count(*), min(item)
  FROM smap_item
 WHERE project_id = :project AND state = 'failed'
 GROUP BY 1
 ORDER BY 2 DESC, 1
 LIMIT :room;

-- name: report_list
SELECT kept.project_id, coalesce(ordered.name, ''), coalesce(project.keywords, '[]'),
       CASE WHEN kept.cancelled_at IS NULL THEN coalesce(project.status, kept.status) ELSE 'CANCELLED' END,
       kept.total, kept.done, kept.errors, kept.created_at, kept.finished_at,
       EXISTS (SELECT 1 FROM post_analytics AS post WHERE post.project_id = kept.project_id AND post.simulated)
  FROM smap_project AS kept
  LEFT JOIN projects AS project ON project.id = kept.project_id
  LEFT JOIN smap_order AS ordered ON ordered.project_id = kept.project_id
 WHERE kept.deleted_at IS NULL
 ORDER BY kept.created_at DESC, kept.project_id DESC
 LIMIT :room;
