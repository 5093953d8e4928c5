-- A relay of some topics finds that it has nothing to do, however many events of other topics wait.
CREATE INDEX headrace_event_topic ON headrace_event (topic) WHERE published_at IS NULL;
