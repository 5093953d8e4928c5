-- creates: smap_alert
-- A post that is a risk, once per level for ever. `batch` is the message that it is in.
CREATE TABLE IF NOT EXISTS smap_alert (
    project_id  text NOT NULL,
    item        text NOT NULL,
    level       text NOT NULL,
    found_at    text NOT NULL,
    batch       text,
    gathered_at text,
    PRIMARY KEY (project_id, item, level)
) STRICT;

-- creates: smap_alert_waiting
CREATE INDEX IF NOT EXISTS smap_alert_waiting ON smap_alert (project_id) WHERE batch IS NULL;

-- creates: smap_alert_gathered
CREATE INDEX IF NOT EXISTS smap_alert_gathered ON smap_alert (project_id, gathered_at);

-- `alert`: the batch of alerts that it tells; none: it tells the end of a project.
ALTER TABLE smap_notice ADD COLUMN alert text;
