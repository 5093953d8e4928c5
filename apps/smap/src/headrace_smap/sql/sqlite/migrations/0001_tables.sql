-- creates: post_analytics
-- One row per post and project: one blob may belong to several projects. Who writes less than we do finds defaults.
CREATE TABLE IF NOT EXISTS post_analytics (
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
    reach             INTEGER NOT NULL DEFAULT 0,
    engagement        INTEGER NOT NULL DEFAULT 0,
    engagement_rate   REAL NOT NULL DEFAULT 0,
    impact            REAL NOT NULL DEFAULT 0,
    risk              TEXT NOT NULL DEFAULT '',
    crawled_at        TEXT NOT NULL DEFAULT '',
    analyzed_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000+00:00'),
    model_version     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (project_id, minio_path)
);

-- creates: smap_attempt
-- Messages that came back from a consumer that was lost: how often somebody began with them since.
CREATE TABLE IF NOT EXISTS smap_attempt (
    project_id TEXT NOT NULL,
    item       TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    charge     TEXT NOT NULL,
    at         TEXT NOT NULL,
    PRIMARY KEY (project_id, item)
);

-- creates: smap_crawl
-- A project's crawl tasks. `fence` is the claim that works or last worked on it: a holder that lost its claim is
-- refused by it. `cursor` is where to go on, `ended` that nothing comes after it. `failures` are those since the last
-- page; `lost` counts holders that vanished in mid-crawl, which may have left blobs that belong to nobody.
CREATE TABLE IF NOT EXISTS smap_crawl (
    project_id TEXT NOT NULL,
    task       TEXT NOT NULL,
    position   INTEGER NOT NULL,
    platform   TEXT NOT NULL,
    keyword    TEXT NOT NULL,
    url        TEXT NOT NULL,
    day        TEXT NOT NULL,
    document   TEXT NOT NULL,
    state      TEXT NOT NULL DEFAULT 'waiting',
    fence      INTEGER NOT NULL DEFAULT 0,
    cursor     TEXT,
    ended      INTEGER NOT NULL DEFAULT 0,
    pages      INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    lost       INTEGER NOT NULL DEFAULT 0,
    error      TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (project_id, task)
) WITHOUT ROWID;

-- creates: smap_found
-- Every post that was found, once per project whoever found it.
CREATE TABLE IF NOT EXISTS smap_found (
    project_id TEXT NOT NULL,
    item       TEXT NOT NULL,
    task       TEXT NOT NULL,
    platform   TEXT NOT NULL,
    crawled_at TEXT NOT NULL,
    published  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, item)
) WITHOUT ROWID;

-- creates: smap_found_unpublished
CREATE INDEX IF NOT EXISTS smap_found_unpublished ON smap_found (project_id, task) WHERE NOT published;

-- creates: smap_insight_seen
-- Each post is counted once, however often it is told of.
CREATE TABLE IF NOT EXISTS smap_insight_seen (
    project_id text NOT NULL,
    item       text NOT NULL,
    PRIMARY KEY (project_id, item)
) STRICT;

-- creates: smap_aggregate
CREATE TABLE IF NOT EXISTS smap_aggregate (
    project_id text NOT NULL,
    day        text NOT NULL,
    platform   text NOT NULL,
    keyword    text NOT NULL,
    sentiment  text NOT NULL,
    posts      integer NOT NULL DEFAULT 0,
    risky      integer NOT NULL DEFAULT 0,
    engagement integer NOT NULL DEFAULT 0,
    impact     real NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, day, platform, keyword, sentiment)
) STRICT;

-- creates: smap_notice
-- `counts`: what the announcement said, if it did.
CREATE TABLE IF NOT EXISTS smap_notice (
    project_id text NOT NULL,
    channel    text NOT NULL,
    notice_id  text NOT NULL,
    counts     text,
    state      text NOT NULL DEFAULT 'waiting',
    attempts   integer NOT NULL DEFAULT 0,
    due_at     text NOT NULL,
    error      text,
    created_at text NOT NULL,
    sent_at    text,
    PRIMARY KEY (project_id, channel)
) STRICT;

-- creates: smap_notice_due
CREATE INDEX IF NOT EXISTS smap_notice_due ON smap_notice (due_at) WHERE state = 'waiting';

-- creates: smap_secret
-- Tokens that change by being used.
CREATE TABLE IF NOT EXISTS smap_secret (
    name  text PRIMARY KEY,
    value text NOT NULL
) STRICT;

-- creates: smap_order
-- What a client ordered besides the columns of projects. `digest` is over the whole order: it tells a repeat from
-- another order under the same id.
CREATE TABLE IF NOT EXISTS smap_order (
  project_id TEXT PRIMARY KEY NOT NULL,
  digest TEXT NOT NULL,
  name TEXT,
  posts_max INTEGER,
  parent TEXT,
  created_at TEXT NOT NULL
) STRICT;

-- creates: smap_outbox
-- Events that were committed and are to be told. `due_at` is when somebody may tell it: while a holder is at it, that
-- is the end of the hold. `origin` is the request or the firing that made it.
CREATE TABLE IF NOT EXISTS smap_outbox (
  event_id TEXT PRIMARY KEY NOT NULL,
  topic TEXT NOT NULL,
  body BLOB NOT NULL,
  key TEXT NOT NULL,
  origin TEXT NOT NULL,
  created_at TEXT NOT NULL,
  due_at TEXT NOT NULL,
  holder TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  published_at TEXT
) STRICT;

-- creates: smap_outbox_due
CREATE INDEX IF NOT EXISTS smap_outbox_due ON smap_outbox (due_at) WHERE published_at IS NULL;

-- creates: smap_outbox_held
CREATE INDEX IF NOT EXISTS smap_outbox_held ON smap_outbox (holder) WHERE published_at IS NULL;

-- creates: smap_outbox_origin
CREATE INDEX IF NOT EXISTS smap_outbox_origin ON smap_outbox (origin);

-- creates: smap_outbox_key
CREATE INDEX IF NOT EXISTS smap_outbox_key ON smap_outbox (key);

-- creates: smap_schedule
-- Projects that are crawled again. `last_project` is the newest of them, at first the project itself.
CREATE TABLE IF NOT EXISTS smap_schedule (
  project_id TEXT PRIMARY KEY NOT NULL,
  every_s INTEGER NOT NULL,
  next_at TEXT NOT NULL,
  last_project TEXT NOT NULL,
  runs INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
) STRICT;

-- creates: smap_schedule_next
CREATE INDEX IF NOT EXISTS smap_schedule_next ON smap_schedule (next_at);

-- creates: smap_deletion
-- Projects that were deleted: what is left to do, and for ever that they are gone.
CREATE TABLE IF NOT EXISTS smap_deletion (
  project_id TEXT PRIMARY KEY NOT NULL,
  asked_at TEXT NOT NULL,
  due_at TEXT NOT NULL,
  holder TEXT,
  sweeps INTEGER NOT NULL DEFAULT 0,
  done_at TEXT
) STRICT;

-- creates: smap_deletion_due
CREATE INDEX IF NOT EXISTS smap_deletion_due ON smap_deletion (due_at) WHERE done_at IS NULL;

-- creates: projects
-- What other services may read: see docs/smap.md.
CREATE TABLE IF NOT EXISTS projects (
  id TEXT PRIMARY KEY NOT NULL,
  keywords TEXT,
  targets TEXT,
  date_range TEXT,
  status TEXT,
  total INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;

-- creates: smap_project
-- The account of a project. `status`, `total`, `done`, `errors`: as last seen in the ledger, `rank` being the place of
-- the status in their order (-1: never seen); once it is sealed by us, `total` is what it was sealed at. `settled` and
-- `failed`: the rows of smap_item, exactly. `found`: posts of our collector, which works on it since `crawled_at`.
-- `others`, `others_failed`: what foreign workers had counted in the ledger. `era`: the life of the ledger's server.
-- The row with `finished_at` is the finish row; `final_…` is what is announced.
CREATE TABLE IF NOT EXISTS smap_project (
  project_id TEXT PRIMARY KEY NOT NULL,
  status TEXT,
  rank INTEGER NOT NULL DEFAULT -1,
  total INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL DEFAULT 0,
  settled INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  found INTEGER NOT NULL DEFAULT 0,
  others INTEGER NOT NULL DEFAULT 0,
  others_failed INTEGER NOT NULL DEFAULT 0,
  era TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL,
  crawled_at TEXT,
  moved_at TEXT NOT NULL,
  sealed_at TEXT,
  cancelled_at TEXT,
  finished_at TEXT,
  final_total INTEGER,
  final_done INTEGER,
  final_errors INTEGER,
  completed_event_id TEXT,
  announced_at TEXT,
  completed_seen_at TEXT,
  deleted_at TEXT
) STRICT;

-- creates: smap_project_unfinished
CREATE INDEX IF NOT EXISTS smap_project_unfinished ON smap_project (project_id) WHERE announced_at IS NULL;

-- creates: smap_project_finished
CREATE INDEX IF NOT EXISTS smap_project_finished ON smap_project (finished_at) WHERE finished_at IS NOT NULL;

-- creates: smap_project_deleted
CREATE INDEX IF NOT EXISTS smap_project_deleted ON smap_project (deleted_at) WHERE deleted_at IS NOT NULL;

-- creates: smap_item
-- How each post ended: a row that says failed may become done, never the other way round.
CREATE TABLE IF NOT EXISTS smap_item (
  project_id TEXT NOT NULL,
  item TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('done', 'failed')),
  reason TEXT,
  body BLOB,
  settled_at TEXT NOT NULL,
  lifted_at TEXT,
  PRIMARY KEY (project_id, item)
) STRICT, WITHOUT ROWID;

-- creates: smap_item_failed
CREATE INDEX IF NOT EXISTS smap_item_failed ON smap_item (project_id, item) WHERE state = 'failed';
