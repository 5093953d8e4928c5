-- When projects are crawled again is a schedule of the engine.
DROP TABLE IF EXISTS smap_schedule;

-- creates: smap_order_parent
CREATE INDEX IF NOT EXISTS smap_order_parent ON smap_order (parent, created_at) WHERE parent IS NOT NULL;
