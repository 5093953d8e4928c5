-- What nobody told is not 0: figures that follow from counters are unknown where no counter is known. `missing` names
-- what impact and risk did without; `simulated` marks a post that was made up. A column cannot lose its NOT NULL here,
-- so the table is made anew.
CREATE TABLE post_analytics_anew (
    project_id        TEXT NOT NULL,
    minio_path        TEXT NOT NULL,
    post_id           TEXT NOT NULL DEFAULT '',
    platform          TEXT NOT NULL DEFAULT '',
    keyword           TEXT NOT NULL DEFAULT '',
    language          TEXT NOT NULL DEFAULT '',
    author_id         TEXT,
    author_name       TEXT,
    followers         INTEGER,
    likes             INTEGER,
    comments          INTEGER,
    shares            INTEGER,
    views             INTEGER,
    published_at      TEXT,
    day               TEXT NOT NULL DEFAULT current_date,
    url               TEXT,
    text              TEXT NOT NULL DEFAULT '',
    hashtags          TEXT NOT NULL DEFAULT '[]',
    intent            TEXT NOT NULL DEFAULT '',
    intent_score      REAL NOT NULL DEFAULT 0,
    is_spam           INTEGER NOT NULL DEFAULT false,
    spam_score        REAL NOT NULL DEFAULT 0,
    spam_reasons      TEXT NOT NULL DEFAULT '[]',
    keywords          TEXT NOT NULL DEFAULT '[]',
    phrases           TEXT NOT NULL DEFAULT '[]',
    aspects           TEXT NOT NULL DEFAULT '[]',
    sentiment         TEXT NOT NULL DEFAULT '',
    sentiment_score   REAL NOT NULL DEFAULT 0,
    aspect_sentiments TEXT NOT NULL DEFAULT '{}',
    reach             INTEGER,
    engagement        INTEGER,
    engagement_rate   REAL,
    impact            REAL,
    risk              TEXT NOT NULL DEFAULT '',
    crawled_at        TEXT NOT NULL DEFAULT '',
    analyzed_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000+00:00'),
    model_version     TEXT NOT NULL DEFAULT '',
    risk_score        REAL,
    missing           TEXT NOT NULL DEFAULT '[]',
    simulated         INTEGER NOT NULL DEFAULT false,
    PRIMARY KEY (project_id, minio_path)
);
INSERT INTO post_analytics_anew
       (project_id, minio_path, post_id, platform, keyword, language, author_id, author_name, followers, likes,
       comments, shares, views, published_at, day, url, text, hashtags, intent, intent_score, is_spam, spam_score,
       spam_reasons, keywords, phrases, aspects, sentiment, sentiment_score, aspect_sentiments, reach, engagement,
       engagement_rate, impact, risk, crawled_at, analyzed_at, model_version)
SELECT project_id, minio_path, post_id, platform, keyword, language, author_id, author_name, followers, likes,
       comments, shares, views, published_at, day, url, text, hashtags, intent, intent_score, is_spam, spam_score,
       spam_reasons, keywords, phrases, aspects, sentiment, sentiment_score, aspect_sentiments, reach, engagement,
       engagement_rate, impact, risk, crawled_at, analyzed_at, model_version
  FROM post_analytics;
DROP TABLE post_analytics;
ALTER TABLE post_analytics_anew RENAME TO post_analytics;
UPDATE post_analytics SET reach = NULL, engagement = NULL, engagement_rate = NULL, impact = NULL
 WHERE followers IS NULL AND likes IS NULL AND comments IS NULL AND shares IS NULL AND views IS NULL;
-- By the names of their authors they were known before.
UPDATE post_analytics SET simulated = true WHERE author_name LIKE '% (simulated)';

-- creates: post_analytics_simulated
CREATE INDEX IF NOT EXISTS post_analytics_simulated ON post_analytics (project_id) WHERE simulated;
