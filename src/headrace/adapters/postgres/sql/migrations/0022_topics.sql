-- A relay may take some topics only: events of others neither hold up its own nor cost it time.
CREATE INDEX event_topic ON headrace.event (topic) WHERE published_at IS NULL;
