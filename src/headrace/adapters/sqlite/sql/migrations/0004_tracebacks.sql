-- A dead letter keeps the whole traceback of the attempt it died of.
ALTER TABLE headrace_dead ADD COLUMN traceback TEXT NOT NULL DEFAULT '';
