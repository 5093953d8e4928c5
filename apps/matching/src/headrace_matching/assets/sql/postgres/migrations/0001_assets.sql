-- creates: matching_asset
-- Images of products and keyframes of videos. The id follows from what an asset is, so the same one again is the same
-- row. Its bytes lie in a blob by their digest, or at a `url`. `dead` says why nothing can be done with it.
CREATE TABLE matching_asset (
    asset_id   text COLLATE "C" PRIMARY KEY,
    job_id     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    owner_id   text COLLATE "C" NOT NULL,
    time_s     double precision,
    sha256     text,
    bytes      bigint NOT NULL DEFAULT 0,
    media_type text NOT NULL DEFAULT '',
    url        text,
    dead       text
);
CREATE INDEX matching_asset_job ON matching_asset (job_id, kind, asset_id) INCLUDE (dead);

-- creates: matching_embedding
-- `vector` holds 64-bit floating-point numbers, little-endian. Only vectors of one model are compared.
CREATE TABLE matching_embedding (
    job_id   text COLLATE "C" NOT NULL,
    asset_id text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    model    text NOT NULL,
    vector   bytea NOT NULL,
    PRIMARY KEY (job_id, asset_id)
);

-- creates: matching_keypoints
-- Points and descriptors lie in a blob by its digest, as the JSON that was sent.
CREATE TABLE matching_keypoints (
    job_id   text COLLATE "C" NOT NULL,
    asset_id text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    model    text NOT NULL,
    sha256   text NOT NULL,
    PRIMARY KEY (job_id, asset_id)
);

-- creates: matching_match
-- A product that appears in a video, with the two assets that fit best.
CREATE TABLE matching_match (
    job_id     text COLLATE "C" NOT NULL,
    product_id text COLLATE "C" NOT NULL,
    video_id   text COLLATE "C" NOT NULL,
    score      double precision NOT NULL,
    img_id     text NOT NULL,
    frame_id   text NOT NULL,
    score_pair double precision NOT NULL,
    PRIMARY KEY (job_id, product_id, video_id)
);
CREATE INDEX matching_match_ranked ON matching_match (job_id, score DESC, product_id, video_id);

-- creates: matching_evidence
-- The picture of a match; a blob by its digest.
CREATE TABLE matching_evidence (
    job_id     text COLLATE "C" NOT NULL,
    product_id text COLLATE "C" NOT NULL,
    video_id   text COLLATE "C" NOT NULL,
    sha256     text NOT NULL,
    media_type text NOT NULL,
    PRIMARY KEY (job_id, product_id, video_id)
)
