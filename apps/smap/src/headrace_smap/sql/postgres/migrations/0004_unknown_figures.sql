-- What nobody told is not 0: figures that follow from counters are unknown where no counter is known. `missing` names
-- what impact and risk did without; `simulated` marks a post that was made up.
ALTER TABLE post_analytics
    ALTER COLUMN reach DROP NOT NULL, ALTER COLUMN reach DROP DEFAULT,
    ALTER COLUMN engagement DROP NOT NULL, ALTER COLUMN engagement DROP DEFAULT,
    ALTER COLUMN engagement_rate DROP NOT NULL, ALTER COLUMN engagement_rate DROP DEFAULT,
    ALTER COLUMN impact DROP NOT NULL, ALTER COLUMN impact DROP DEFAULT,
    ADD COLUMN IF NOT EXISTS risk_score double precision,
    ADD COLUMN IF NOT EXISTS missing jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN IF NOT EXISTS simulated boolean NOT NULL DEFAULT false;
UPDATE post_analytics SET reach = NULL, engagement = NULL, engagement_rate = NULL, impact = NULL
 WHERE followers IS NULL AND likes IS NULL AND comments IS NULL AND shares IS NULL AND views IS NULL;
-- By the names of their authors they were known before.
UPDATE post_analytics SET simulated = true WHERE author_name LIKE '% (simulated)';

-- creates: post_analytics_simulated
CREATE INDEX IF NOT EXISTS post_analytics_simulated ON post_analytics (project_id) WHERE simulated;
