-- creates: matching_asset
-- Images of products and keyframes of videos. The id follows from what an asset is, so the same one again is the same
-- row. Its bytes lie in a blob by their digest, or at a `url`. `dead` says why nothing can be done with it.
CREATE TABLE matching_asset (
    asset_id   TEXT PRIMARY KEY,
    job_id     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    owner_id   TEXT NOT NULL,
    time_s     REAL,
    sha256     TEXT,
    bytes      INTEGER NOT NULL DEFAULT 0,
    media_type TEXT NOT NULL DEFAULT '',
    url        TEXT,
    dead       TEXT
);
CREATE INDEX matching_asset_job ON matching_asset (job_id, kind, asset_id);

-- creates: matching_embedding
-- `vector` holds 64-bit floating-point numbers, little-endian. Only vectors of one model are compared.
CREATE TABLE matching_embedding (
    job_id   TEXT NOT NULL,
    asset_id TEXT NOT NULL,
    kind     TEXT NOT NULL,
    model    TEXT NOT NULL,
    vector   BLOB NOT NULL,
    PRIMARY KEY (job_id, asset_id)
);

-- creates: matching_keypoints
-- Points and descriptors lie in a blob by its digest, as the JSON that was sent.
CREATE TABLE matching_keypoints (
    job_id   TEXT NOT NULL,
    asset_id TEXT NOT NULL,
    kind     TEXT NOT NULL,
    model    TEXT NOT NULL,
    sha256   TEXT NOT NULL,
    PRIMARY KEY (job_id, asset_id)
);

-- creates: matching_match
-- A product that appears in a video, with the two assets that fit best.
CREATE TABLE matching_match (
    job_id     TEXT NOT NULL,
    product_id TEXT NOT NULL,
    video_id   TEXT NOT NULL,
    score      REAL NOT NULL,
    img_id     TEXT NOT NULL,
    frame_id   TEXT NOT NULL,
    score_pair REAL NOT NULL,
    PRIMARY KEY (job_id, product_id, video_id)
);
CREATE INDEX matching_match_ranked ON matching_match (job_id, score DESC, product_id, video_id);

-- creates: matching_evidence
-- The picture of a match; a blob by its digest.
CREATE TABLE matching_evidence (
    job_id     TEXT NOT NULL,
    product_id TEXT NOT NULL,
    video_id   TEXT NOT NULL,
    sha256     TEXT NOT NULL,
    media_type TEXT NOT NULL,
    PRIMARY KEY (job_id, product_id, video_id)
)
