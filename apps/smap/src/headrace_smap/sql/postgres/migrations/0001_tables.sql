-- creates: post_analytics
-- One row per post and project: one blob may belong to several projects. Who writes less than we do finds defaults.
CREATE TABLE IF NOT EXISTS post_analytics (
    project_id        text NOT NULL,
    minio_path        text NOT NULL,
    post_id           text NOT NULL DEFAULT '',
    platform          text NOT NULL DEFAULT '',
    keyword           text NOT NULL DEFAULT '',
    language          text NOT NULL DEFAULT '',
    author_id         text,
    author_name       text,
    followers         bigint,
    likes             bigint,
    comments          bigint,
    shares            bigint,
    views             bigint,
    published_at      timestamptz,
    day               date NOT NULL DEFAULT current_date,
    url               text,
    text              text NOT NULL DEFAULT '',
    hashtags          jsonb NOT NULL DEFAULT '[]',
    intent            text NOT NULL DEFAULT '',
    intent_score      double precision NOT NULL DEFAULT 0,
    is_spam           boolean NOT NULL DEFAULT false,
    spam_score        double precision NOT NULL DEFAULT 0,
    spam_reasons      jsonb NOT NULL DEFAULT '[]',
    keywords          jsonb NOT NULL DEFAULT '[]',
    phrases           jsonb NOT NULL DEFAULT '[]',
    aspects           jsonb NOT NULL DEFAULT '[]',
    sentiment         text NOT NULL DEFAULT '',
    sentiment_score   double precision NOT NULL DEFAULT 0,
    aspect_sentiments jsonb NOT NULL DEFAULT '{}',
    reach             bigint NOT NULL DEFAULT 0,
    engagement        bigint NOT NULL DEFAULT 0,
    engagement_rate   double precision NOT NULL DEFAULT 0,
    impact            double precision NOT NULL DEFAULT 0,
    risk              text NOT NULL DEFAULT '',
    crawled_at        text NOT NULL DEFAULT '',
    analyzed_at       timestamptz NOT NULL DEFAULT now(),
    model_version     text NOT NULL DEFAULT '',
    PRIMARY KEY (project_id, minio_path)
);

-- creates: smap_attempt
-- Messages that came back from a consumer that was lost: how often somebody began with them since.
CREATE TABLE IF NOT EXISTS smap_attempt (
    project_id text NOT NULL,
    item       text NOT NULL,
    attempts   integer NOT NULL,
    charge     text NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (project_id, item)
);

-- creates: smap_crawl
-- A project's crawl tasks. `fence` is the claim that works or last worked on it: a holder that lost its claim is
-- refused by it. `cursor` is where to go on, `ended` that nothing comes after it. `failures` are those since the last
-- page; `lost` counts holders that vanished in mid-crawl, which may have left blobs that belong to nobody.
CREATE TABLE IF NOT EXISTS smap_crawl (
    project_id text NOT NULL,
    task       text NOT NULL,
    position   integer NOT NULL,
    platform   text NOT NULL,
    keyword    text NOT NULL,
    url        text NOT NULL,
    day        text NOT NULL,
    document   text NOT NULL,
    state      text NOT NULL DEFAULT 'waiting',
    fence      bigint NOT NULL DEFAULT 0,
    cursor     text,
    ended      boolean NOT NULL DEFAULT false,
    pages      bigint NOT NULL DEFAULT 0,
    failures   integer NOT NULL DEFAULT 0,
    lost       integer NOT NULL DEFAULT 0,
    error      text,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, task)
);

-- creates: smap_found
-- Every post that was found, once per project whoever found it.
CREATE TABLE IF NOT EXISTS smap_found (
    project_id text NOT NULL,
    item       text NOT NULL,
    task       text NOT NULL,
    platform   text NOT NULL,
    crawled_at text NOT NULL,
    published  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (project_id, item)
);

-- creates: smap_found_unpublished
CREATE INDEX IF NOT EXISTS smap_found_unpublished ON smap_found (project_id, task) WHERE NOT published;

-- creates: smap_insight_seen
-- Each post is counted once, however often it is told of.
CREATE TABLE IF NOT EXISTS smap_insight_seen (
    project_id text NOT NULL,
    item       text NOT NULL,
    PRIMARY KEY (project_id, item)
);

-- creates: smap_aggregate
CREATE TABLE IF NOT EXISTS smap_aggregate (
    project_id text NOT NULL,
    day        text NOT NULL,
    platform   text NOT NULL,
    keyword    text NOT NULL,
    sentiment  text NOT NULL,
    posts      bigint NOT NULL DEFAULT 0,
    risky      bigint NOT NULL DEFAULT 0,
    engagement bigint NOT NULL DEFAULT 0,
    impact     double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, day, platform, keyword, sentiment)
);

-- creates: smap_notice
-- `counts`: what the announcement said, if it did.
CREATE TABLE IF NOT EXISTS smap_notice (
    project_id text NOT NULL,
    channel    text NOT NULL,
    notice_id  text NOT NULL,
    counts     jsonb,
    state      text NOT NULL DEFAULT 'waiting',
    attempts   integer NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL,
    error      text,
    created_at timestamptz NOT NULL,
    sent_at    timestamptz,
    PRIMARY KEY (project_id, channel)
);

-- creates: smap_notice_due
CREATE INDEX IF NOT EXISTS smap_notice_due ON smap_notice (due_at) WHERE state = 'waiting';

-- creates: smap_secret
-- Tokens that change by being used.
CREATE TABLE IF NOT EXISTS smap_secret (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- creates: smap_order
-- What a client ordered besides the columns of projects. `digest` is over the whole order: it tells a repeat from
-- another order under the same id.
CREATE TABLE IF NOT EXISTS smap_order (
  project_id text PRIMARY KEY,
  digest text NOT NULL,
  name text,
  posts_max bigint,
  parent text,
  created_at timestamptz NOT NULL
);

-- creates: smap_outbox
-- Events that were committed and are to be told. `due_at` is when somebody may tell it: while a holder is at it, that
-- is the end of the hold. `origin` is the request or the firing that made it.
CREATE TABLE IF NOT EXISTS smap_outbox (
  event_id text PRIMARY KEY,
  topic text NOT NULL,
  body bytea NOT NULL,
  key text NOT NULL,
  origin text NOT NULL,
  created_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  holder text,
  attempts int NOT NULL DEFAULT 0,
  published_at timestamptz
);

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
  project_id text PRIMARY KEY,
  every_s bigint NOT NULL,
  next_at timestamptz NOT NULL,
  last_project text NOT NULL,
  runs bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL
);

-- creates: smap_schedule_next
CREATE INDEX IF NOT EXISTS smap_schedule_next ON smap_schedule (next_at);

-- creates: smap_deletion
-- Projects that were deleted: what is left to do, and for ever that they are gone.
CREATE TABLE IF NOT EXISTS smap_deletion (
  project_id text PRIMARY KEY,
  asked_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  holder text,
  sweeps int NOT NULL DEFAULT 0,
  done_at timestamptz
);

-- creates: smap_deletion_due
CREATE INDEX IF NOT EXISTS smap_deletion_due ON smap_deletion (due_at) WHERE done_at IS NULL;

-- creates: projects
-- What other services may read: see docs/smap.md.
CREATE TABLE IF NOT EXISTS projects (
  id text PRIMARY KEY,
  keywords jsonb,
  targets jsonb,
  date_range jsonb,
  status text,
  total bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  errors bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);

-- creates: smap_project
-- The account of a project. `status`, `total`, `done`, `errors`: as last seen in the ledger, `rank` being the place of
-- the status in their order (-1: never seen); once it is sealed by us, `total` is what it was sealed at. `settled` and
-- `failed`: the rows of smap_item, exactly. `found`: posts of our collector, which works on it since `crawled_at`.
-- `others`, `others_failed`: what foreign workers had counted in the ledger. `era`: the life of the ledger's server.
-- The row with `finished_at` is the finish row; `final_…` is what is announced.
CREATE TABLE IF NOT EXISTS smap_project (
  project_id text PRIMARY KEY,
  status text,
  rank int NOT NULL DEFAULT -1,
  total bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  errors bigint NOT NULL DEFAULT 0,
  settled bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  found bigint NOT NULL DEFAULT 0,
  others bigint NOT NULL DEFAULT 0,
  others_failed bigint NOT NULL DEFAULT 0,
  era text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  crawled_at timestamptz,
  moved_at timestamptz NOT NULL DEFAULT now(),
  sealed_at timestamptz,
  cancelled_at timestamptz,
  finished_at timestamptz,
  final_total bigint,
  final_done bigint,
  final_errors bigint,
  completed_event_id text,
  announced_at timestamptz,
  completed_seen_at timestamptz,
  deleted_at timestamptz
) WITH (fillfactor = 50);

-- creates: smap_project_unfinished
CREATE INDEX IF NOT EXISTS smap_project_unfinished ON smap_project (project_id) WHERE announced_at IS NULL;

-- creates: smap_project_finished
CREATE INDEX IF NOT EXISTS smap_project_finished ON smap_project (finished_at) WHERE finished_at IS NOT NULL;

-- creates: smap_project_deleted
CREATE INDEX IF NOT EXISTS smap_project_deleted ON smap_project (deleted_at) WHERE deleted_at IS NOT NULL;

-- creates: smap_item
-- How each post ended: a row that says failed may become done, never the other way round.
CREATE TABLE IF NOT EXISTS smap_item (
  project_id text NOT NULL,
  item text NOT NULL,
  state text NOT NULL CHECK (state IN ('done', 'failed')),
  reason text,
  body bytea,
  settled_at timestamptz NOT NULL,
  lifted_at timestamptz,
  PRIMARY KEY (project_id, item)
);

-- creates: smap_item_failed
CREATE INDEX IF NOT EXISTS smap_item_failed ON smap_item (project_id, item) WHERE state = 'failed';
