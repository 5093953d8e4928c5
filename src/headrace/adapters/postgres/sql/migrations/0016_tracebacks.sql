-- A dead letter keeps the whole traceback of the attempt it died of.
ALTER TABLE headrace.dead ADD COLUMN traceback text NOT NULL DEFAULT '';
